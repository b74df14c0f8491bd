// SPDX-License-Identifier: Apache-2.0
// Sums of slots, by kind.
#include "control/capacity.h"

#include <algorithm>

#include "control/rank_placement.h"

namespace troupe::control {

Room& Room::operator+=(const Room& other) {
  most += other.most;
  all += other.all;
  free += other.free;
  return *this;
}

void Capacity::add(const GpuSlots& of_agent, bool in_service) {
  by_model_.clear();
  for (const schemas::GpuOffer& gpu : of_agent.all()) ++gpus_[{gpu.memory_bytes, gpu.name}].most;
  if (!in_service) return;
  for (const schemas::GpuOffer& gpu : of_agent.in_service()) {
    ++gpus_[{gpu.memory_bytes, gpu.name}].all;
  }
  for (const FreeGpu& gpu : of_agent.free()) ++gpus_[{gpu.memory_bytes, gpu.model}].free;
}

Room Capacity::room_for(const schemas::WorkersSpec& workers) const {
  if (workers.device == schemas::WorkerDevice::cpu) return cpus_;
  Room room;
  for (const auto& [model, of_model] : models_for(workers)) room += of_model;
  return room;
}

const std::map<std::string, Room>& Capacity::models_for(const schemas::WorkersSpec& workers) const {
  const auto [known, added] = by_model_.try_emplace(workers.memory);
  std::map<std::string, Room>& models = known->second;
  if (!added) return models;
  for (auto entry = gpus_.lower_bound({workers.memory, ""}); entry != gpus_.end(); ++entry) {
    models[entry->first.second] += entry->second;
  }
  return models;
}

std::pair<std::uint64_t, std::uint64_t> Capacity::too_small_for(
    const schemas::WorkersSpec& workers) const {
  std::uint64_t count = 0, largest_bytes = 0;
  for (const auto& [size, room] : gpus_) {
    if (size.first >= workers.memory) break;
    count += room.all;
    if (room.all > 0) largest_bytes = size.first;
  }
  return {count, largest_bytes};
}

bool Capacity::holds(const schemas::JobSpec& spec, const std::string& model,
                     std::uint64_t Room::*slots) const {
  const bool one_model = spec.workers.device == schemas::WorkerDevice::gpu &&
                         (one_numeric_class(spec) || !model.empty());
  if (!one_model) return spec.ranks() <= room_for(spec.workers).*slots;
  const std::map<std::string, Room>& models = models_for(spec.workers);
  if (!model.empty()) {
    const auto of_model = models.find(model);
    return of_model != models.end() && spec.ranks() <= of_model->second.*slots;
  }
  return std::ranges::any_of(
      models, [&](const auto& entry) { return spec.ranks() <= entry.second.*slots; });
}

}  // namespace troupe::control
