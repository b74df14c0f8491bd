// SPDX-License-Identifier: Apache-2.0
// Placement of ranks on offers.
#include "control/rank_placement.h"

#include <numeric>

namespace troupe::control {
namespace {

/// Gives whole groups to offers in turn until none fits or none is left; returns the offers by
/// rank, as far as placed.
std::vector<std::size_t> place_groups(std::vector<std::uint32_t>& free,
                                      const schemas::JobSpec& spec) {
  std::vector<std::size_t> offer_of_rank;
  for (bool placed = true; placed;) {
    placed = false;
    for (std::size_t offer = 0; offer < free.size(); ++offer) {
      if (offer_of_rank.size() == spec.ranks() || free[offer] < spec.workers.devices) continue;
      offer_of_rank.insert(offer_of_rank.end(), spec.workers.devices, offer);
      free[offer] -= spec.workers.devices;
      placed = true;
    }
  }
  return offer_of_rank;
}

}  // namespace

std::optional<RankPlacement> place_ranks(const std::vector<SlotOffer>& offers,
                                         const schemas::JobSpec& spec) {
  std::vector<std::uint32_t> free;
  for (const SlotOffer& offer : offers) free.push_back(offer.free_slots);
  if (std::accumulate(free.begin(), free.end(), std::uint64_t{0}) < spec.ranks()) return {};
  std::vector<std::size_t> offer_of_rank = place_groups(free, spec);
  for (std::size_t offer = 0; offer_of_rank.size() < spec.ranks(); ++offer) {
    for (; free[offer] > 0 && offer_of_rank.size() < spec.ranks(); --free[offer]) {
      offer_of_rank.push_back(offer);
    }
  }

  RankPlacement result;
  std::vector<std::optional<std::uint32_t>> machine_of_offer(offers.size());
  for (const std::size_t offer : offer_of_rank) {
    if (!machine_of_offer[offer]) {
      machine_of_offer[offer] = static_cast<std::uint32_t>(result.offers.size());
      result.offers.push_back(offer);
      result.placement.machines.push_back(offers[offer].machine);
    }
    result.placement.machine_of_rank.push_back(*machine_of_offer[offer]);
  }
  for (std::uint32_t shard = 0; shard < spec.shards(); ++shard) {
    result.placement.machine_of_shard.push_back(shard %
                                                static_cast<std::uint32_t>(result.offers.size()));
  }
  return result;
}

}  // namespace troupe::control
