// SPDX-License-Identifier: Apache-2.0
// Placement of ranks on offers.
#include "control/rank_placement.h"

#include <algorithm>
#include <numeric>

namespace troupe::control {
namespace {

/// An offer's GPUs that the job can use, in the order in which ranks take them.
std::vector<FreeGpu> usable_gpus(const SlotOffer& offer, const schemas::WorkersSpec& workers) {
  std::vector<FreeGpu> usable;
  if (workers.device != schemas::WorkerDevice::gpu) return usable;
  for (const FreeGpu& gpu : offer.free_gpus) {
    if (gpu.memory_bytes >= workers.memory) usable.push_back(gpu);
  }
  std::stable_sort(usable.begin(), usable.end(), [](const FreeGpu& a, const FreeGpu& b) {
    return a.memory_bytes < b.memory_bytes;
  });
  return usable;
}

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

/// The offers by rank; nullopt: too few slots are free.
std::optional<std::vector<std::size_t>> choose_offers(std::vector<std::uint32_t> free,
                                                      const schemas::JobSpec& spec) {
  if (std::accumulate(free.begin(), free.end(), std::uint64_t{0}) < spec.ranks()) return {};
  std::vector<std::size_t> offer_of_rank = place_groups(free, spec);
  for (std::size_t offer = 0; offer_of_rank.size() < spec.ranks(); ++offer) {
    for (; free[offer] > 0 && offer_of_rank.size() < spec.ranks(); --free[offer]) {
      offer_of_rank.push_back(offer);
    }
  }
  return offer_of_rank;
}

}  // namespace

std::optional<RankPlacement> place_ranks(const std::vector<SlotOffer>& offers,
                                         const schemas::JobSpec& spec) {
  const bool on_gpus = spec.workers.device == schemas::WorkerDevice::gpu;
  std::vector<std::vector<FreeGpu>> gpus;
  std::vector<std::uint32_t> free;
  for (const SlotOffer& offer : offers) {
    gpus.push_back(usable_gpus(offer, spec.workers));
    free.push_back(on_gpus ? static_cast<std::uint32_t>(gpus.back().size()) : offer.free_slots);
  }
  const auto offer_of_rank = choose_offers(std::move(free), spec);
  if (!offer_of_rank) return {};

  RankPlacement result;
  std::vector<std::optional<std::uint32_t>> machine_of_offer(offers.size());
  std::vector<std::size_t> taken(offers.size());  // of gpus
  for (const std::size_t offer : *offer_of_rank) {
    if (!machine_of_offer[offer]) {
      machine_of_offer[offer] = static_cast<std::uint32_t>(result.offers.size());
      result.offers.push_back(offer);
      result.placement.machines.push_back(offers[offer].machine);
    }
    result.placement.machine_of_rank.push_back(*machine_of_offer[offer]);
    if (on_gpus) result.gpu_of_rank.push_back(gpus[offer][taken[offer]++].place);
  }
  for (std::uint32_t shard = 0; shard < spec.shards(); ++shard) {
    result.placement.machine_of_shard.push_back(shard %
                                                static_cast<std::uint32_t>(result.offers.size()));
  }
  return result;
}

}  // namespace troupe::control
