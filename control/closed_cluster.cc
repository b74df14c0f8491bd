// SPDX-License-Identifier: Apache-2.0
// Whether what agents have can ever be enough.
#include "control/closed_cluster.h"

#include <fmt/format.h>

#include "base/units.h"

namespace troupe::control {

bool ClosedCluster::in_vain(const Capacity& capacity, const schemas::JobSpec& spec,
                            const std::string& model, std::uint64_t short_ms,
                            std::uint64_t patience_ms) const {
  if (expected == 0 || capacity.holds(spec, model, &Room::all)) return false;
  const bool may_change = joined != expected || capacity.holds(spec, model, &Room::most);
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
