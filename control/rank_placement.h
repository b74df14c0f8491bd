// SPDX-License-Identifier: Apache-2.0
// Which machine gets which ranks and parameter servers of a job. A pure function: the same offers
// give the same placement. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::control {

/// Worker slots of one agent.
inline constexpr std::uint32_t kSlotsMax = 4'096;

/// What a machine has to give.
struct SlotOffer {
  std::string machine;
  std::uint32_t free_slots = 0;
};

/// A placement and, per machine index, the offer that it took.
struct RankPlacement {
  schemas::Placement placement;  ///< machines, machine_of_rank, machine_of_shard
  std::vector<std::size_t> offers;
};

/// Places the job's ranks. Groups of devices go whole to the offers in turn, one per round; those
/// that fit nowhere whole are spread rank by rank over what is left. Parameter servers take no slot
/// and go round the machines used. nullopt: too few free slots.
std::optional<RankPlacement> place_ranks(const std::vector<SlotOffer>& offers,
                                         const schemas::JobSpec& spec);

}  // namespace troupe::control
