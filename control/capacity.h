// SPDX-License-Identifier: Apache-2.0
// Slots of machines, counted together: whether a job can have room, however they are spread. Pure;
// one owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "control/gpu_slots.h"
#include "schemas/job_spec.h"

namespace troupe::control {

/// Slots of one kind.
struct Room {
  /// All that jobs may ever have of those that are known: besides what is in service lost GPUs,
  /// slots that are withheld, and those of agents whose link is cut.
  std::uint64_t most = 0;
  std::uint64_t all = 0;   ///< in service, whether or not jobs have them
  std::uint64_t free = 0;  ///< in service, and nobody's

  Room& operator+=(const Room& other);
};

/// See the top of the file.
class Capacity {
 public:
  /// Slots of CPUs.
  void add(const Room& of_cpus) { cpus_ += of_cpus; }
  /// The GPUs of one agent; without `in_service` jobs may have them at some other time.
  void add(const GpuSlots& of_agent, bool in_service);
  /// A job takes a free slot of a CPU, or of such a GPU.
  void take() { --cpus_.free; }
  void take(const FreeGpu& gpu) {
    --gpus_.at({gpu.memory_bytes, gpu.model}).free;
    by_model_.clear();
  }

  /// What such workers can use: slots of CPUs, or GPUs that are large enough.
  Room room_for(const schemas::WorkersSpec& workers) const;
  /// GPUs that are large enough, by model; until the next change.
  const std::map<std::string, Room>& models_for(const schemas::WorkersSpec& workers) const;
  /// GPUs in service that are too small, and the largest one's bytes of memory.
  std::pair<std::uint64_t, std::uint64_t> too_small_for(const schemas::WorkersSpec& workers) const;
  /// Whether the job has room in what `slots` counts: large enough GPUs, and of one model where it
  /// has to be; all of `model`, unless that is empty.
  bool holds(const schemas::JobSpec& spec, const std::string& model,
             std::uint64_t Room::*slots) const;

 private:
  using Size = std::pair<std::uint64_t, std::string>;  // bytes of memory, and the model

  Room cpus_;
  std::map<Size, Room> gpus_;
  /// By memory that was asked for: many jobs wait for the same.
  mutable std::map<std::uint64_t, std::map<std::string, Room>> by_model_;
};

}  // namespace troupe::control
