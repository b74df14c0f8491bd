// SPDX-License-Identifier: Apache-2.0
// What machines have in all, and whether that can be enough.
#include "control/closed_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "control/rank_placement.h"

namespace troupe::control {

void Capacity::add(std::uint64_t slots, const std::vector<schemas::GpuOffer>& gpus) {
  slots_ += slots;
  for (const schemas::GpuOffer& gpu : gpus) ++gpus_[{gpu.memory_bytes, gpu.name}];
}

bool Capacity::holds(const schemas::JobSpec& spec) const {
  if (spec.workers.device == schemas::WorkerDevice::cpu) return spec.ranks() <= slots_;
  std::map<std::string, std::uint64_t> models;  // GPUs that are large enough
  for (auto entry = gpus_.lower_bound({spec.workers.memory, ""}); entry != gpus_.end(); ++entry) {
    models[one_numeric_class(spec) ? entry->first.second : ""] += entry->second;
  }
  return std::ranges::any_of(models,
                             [&](const auto& entry) { return spec.ranks() <= entry.second; });
}

bool ClosedCluster::in_vain(const schemas::JobSpec& spec, std::uint64_t short_ms,
                            std::uint64_t patience_ms) const {
  if (expected == 0 || in_service.holds(spec)) return false;
  const bool may_change = joined != expected || most.holds(spec);
  return !may_change || short_ms >= patience_ms;
}

std::string ClosedCluster::missing() const {
  if (joined == expected) return "";
  const std::string agents = base::format_counted(expected, "agent");
  if (joined > expected) return fmt::format("; {} are there, and {} expected", joined, agents);
  const std::uint64_t missing = expected - joined;
  return fmt::format("; {} of {} {} not there", missing, agents, missing == 1 ? "is" : "are");
}

}  // namespace troupe::control
