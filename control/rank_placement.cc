// SPDX-License-Identifier: Apache-2.0
// Placement of ranks on offers.
#include "control/rank_placement.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace troupe::control {
namespace {

/// Slots for the ranks of a job.
struct Choice {
  std::vector<std::vector<FreeGpu>> gpus;  // by offer, in the order in which ranks take them
  std::vector<std::size_t> offer_of_rank;
  std::size_t whole = 0;  // ranks whose groups are on one machine each
};

/// An offer's GPUs that the job can use, all or those of one model, in the order in which ranks
/// take them.
std::vector<FreeGpu> usable_gpus(const SlotOffer& offer, const schemas::WorkersSpec& workers,
                                 const std::string* model) {
  std::vector<FreeGpu> usable;
  if (workers.device != schemas::WorkerDevice::gpu) return usable;
  for (const FreeGpu& gpu : offer.free_gpus) {
    if (model != nullptr && gpu.model != *model) continue;
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

/// nullopt: too few slots are free.
std::optional<Choice> choose(const std::vector<SlotOffer>& offers, const schemas::JobSpec& spec,
                             const std::string* model) {
  const bool on_gpus = spec.workers.device == schemas::WorkerDevice::gpu;
  Choice choice;
  std::vector<std::uint32_t> free;
  for (const SlotOffer& offer : offers) {
    choice.gpus.push_back(usable_gpus(offer, spec.workers, model));
    free.push_back(on_gpus ? static_cast<std::uint32_t>(choice.gpus.back().size())
                           : offer.free_slots);
  }
  if (std::accumulate(free.begin(), free.end(), std::uint64_t{0}) < spec.ranks()) return {};
  choice.offer_of_rank = place_groups(free, spec);
  choice.whole = choice.offer_of_rank.size();
  for (std::size_t offer = 0; choice.offer_of_rank.size() < spec.ranks(); ++offer) {
    for (; free[offer] > 0 && choice.offer_of_rank.size() < spec.ranks(); --free[offer]) {
      choice.offer_of_rank.push_back(offer);
    }
  }
  return choice;
}

/// Of all models that have enough; see place_ranks().
std::optional<Choice> choose_model(const std::vector<SlotOffer>& offers,
                                   const schemas::JobSpec& spec, const std::string& preferred,
                                   std::string& model) {
  std::map<std::string, std::uint64_t> models;
  for (const SlotOffer& offer : offers) {
    for (const FreeGpu& gpu : offer.free_gpus) {
      if (gpu.memory_bytes >= spec.workers.memory) ++models[gpu.model];
    }
  }
  std::optional<Choice> best;
  std::tuple<bool, std::size_t, std::uint64_t, std::size_t> best_rank;
  for (const auto& [name, free] : models) {
    if (free < spec.ranks()) continue;
    auto choice = choose(offers, spec, &name);
    if (!choice) continue;
    std::size_t count = 0;
    std::uint64_t least_bytes = ~std::uint64_t{0};
    for (const std::vector<FreeGpu>& gpus : choice->gpus) {
      count += gpus.size();
      if (!gpus.empty()) least_bytes = std::min(least_bytes, gpus.front().memory_bytes);
    }
    const std::tuple rank(name == preferred, choice->whole, ~least_bytes, count);
    if (best && rank <= best_rank) continue;
    best = std::move(choice);
    best_rank = rank;
    model = name;
  }
  return best;
}

}  // namespace

bool one_numeric_class(const schemas::JobSpec& spec) {
  return spec.reproducible && spec.consistency.sequential();
}

std::optional<RankPlacement> place_ranks(const std::vector<SlotOffer>& offers,
                                         const schemas::JobSpec& spec,
                                         const std::string& preferred) {
  const bool on_gpus = spec.workers.device == schemas::WorkerDevice::gpu;
  RankPlacement result;
  const auto choice = on_gpus && one_numeric_class(spec)
                          ? choose_model(offers, spec, preferred, result.model)
                          : choose(offers, spec, nullptr);
  if (!choice) return {};

  std::vector<std::optional<std::uint32_t>> machine_of_offer(offers.size());
  std::vector<std::size_t> taken(offers.size());  // of gpus
  for (const std::size_t offer : choice->offer_of_rank) {
    if (!machine_of_offer[offer]) {
      machine_of_offer[offer] = static_cast<std::uint32_t>(result.offers.size());
      result.offers.push_back(offer);
      result.placement.machines.push_back(offers[offer].machine);
    }
    result.placement.machine_of_rank.push_back(*machine_of_offer[offer]);
    if (!on_gpus) continue;
    result.slot_of_rank.push_back(choice->gpus[offer][taken[offer]++].place);
    result.placement.gpu_of_rank.push_back(result.slot_of_rank.back().index);
  }
  for (std::uint32_t shard = 0; shard < spec.shards(); ++shard) {
    result.placement.machine_of_shard.push_back(shard %
                                                static_cast<std::uint32_t>(result.offers.size()));
  }
  return result;
}

}  // namespace troupe::control
