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
  std::string model;  ///< GpuOffer::name
};

/// What a machine has to give.
struct SlotOffer {
  std::string machine;
  std::uint32_t free_slots = 0;         ///< for workers on CPUs
  std::vector<FreeGpu> free_gpus = {};  ///< for workers on GPUs
};

/// A placement and, per machine index, the offer that it took.
struct RankPlacement {
  schemas::Placement placement;  ///< machines, and which of them and of their GPUs have what
  std::vector<std::size_t> offers;
  std::vector<GpuPlace> slot_of_rank;  ///< of placement.gpu_of_rank
  std::string model;                   ///< of all these GPUs; empty: the job may have several
};

/// Whether the job's processes have to be of one numeric class, and its GPUs of one model: another
/// instruction set or another build gives other bits, and a job that must be reproducible would not
/// be.
bool one_numeric_class(const schemas::JobSpec& spec);

/// Places the job's ranks. Groups of devices go whole to the offers in turn, one per round; those
/// that fit nowhere whole are spread rank by rank over what is left. A rank on a GPU takes of its
/// machine's free GPUs with enough memory the one with the least, of equal ones the first.
///
/// Where all have to be of one model (one_numeric_class), that is `preferred` if it has enough;
/// else the one with which most groups stay whole, then the smallest one, then the one with most
/// free GPUs, then the first by name: groups count as they do without models, large GPUs stay
/// free, and room is left.
///
/// Parameter servers take no slot and go round the machines used. nullopt: too few free slots.
std::optional<RankPlacement> place_ranks(const std::vector<SlotOffer>& offers,
                                         const schemas::JobSpec& spec,
                                         const std::string& preferred = "");

}  // namespace troupe::control
