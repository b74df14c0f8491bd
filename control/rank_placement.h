// SPDX-License-Identifier: Apache-2.0
// Which machine gets which ranks and parameter servers of a job, and which GPU each rank gets. A
// pure function: the same offers give the same placement. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::control {

/// CPU slots of one agent.
inline constexpr std::uint32_t kSlotsMax = 4'096;

/// A rank's GPU slot.
struct GpuPlace {
  std::uint32_t position = 0;  ///< in AgentHello::gpus of the machine's agent
  std::uint32_t index = 0;     ///< of the GPU there
  friend auto operator<=>(const GpuPlace&, const GpuPlace&) = default;
};

/// A GPU slot that a machine has to give.
struct FreeGpu {
  GpuPlace place;
  std::uint64_t memory_bytes = 0;
};

/// What a machine has to give.
struct SlotOffer {
  std::string machine;
  std::uint32_t free_slots = 0;         ///< for workers on CPUs
  std::vector<FreeGpu> free_gpus = {};  ///< for workers on GPUs
};

/// A placement and, per machine index, the offer that it took.
struct RankPlacement {
  schemas::Placement placement;  ///< machines, machine_of_rank, machine_of_shard
  std::vector<std::size_t> offers;
  std::vector<GpuPlace> gpu_of_rank;  ///< empty: the job computes on CPUs
};

/// Places the job's ranks. Groups of devices go whole to the offers in turn, one per round; those
/// that fit nowhere whole are spread rank by rank over what is left. A rank on a GPU takes of its
/// machine's free GPUs with enough memory the one with the least, of equal ones the first.
/// Parameter servers take no slot and go round the machines used. nullopt: too few free slots.
std::optional<RankPlacement> place_ranks(const std::vector<SlotOffer>& offers,
                                         const schemas::JobSpec& spec);

}  // namespace troupe::control
