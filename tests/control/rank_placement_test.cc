// SPDX-License-Identifier: Apache-2.0
// Which machine gets what: groups stay whole where they fit, servers go round, GPUs are large
// enough and nobody else's, and the same offers give the same placement.
#include "control/rank_placement.h"

#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using Machines = std::vector<std::uint32_t>;

schemas::JobSpec spec_of(std::uint32_t machines, std::uint32_t devices, std::uint32_t shards) {
  schemas::JobSpec spec;
  spec.workers = {machines, devices, 1};
  spec.servers.shards = shards;
  return spec;
}

TEST_CASE("groups go whole to the offers in turn") {
  const auto placed = place_ranks({{"a", 4}, {"b", 4}}, spec_of(2, 2, 3));
  REQUIRE(placed);
  CHECK(placed->placement.machines == std::vector<std::string>{"a", "b"});
  CHECK(placed->placement.machine_of_rank == Machines{0, 0, 1, 1});
  CHECK(placed->placement.machine_of_shard == Machines{0, 1, 0});
  CHECK(placed->offers == std::vector<std::size_t>{0, 1});
}

TEST_CASE("a second round fills what the first has left") {
  const auto placed = place_ranks({{"a", 2}, {"b", 6}}, spec_of(4, 2, 1));
  REQUIRE(placed);
  CHECK(placed->placement.machine_of_rank == Machines{0, 0, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("an offer without room is no machine of the job") {
  const auto placed = place_ranks({{"full", 0}, {"b", 4}}, spec_of(2, 2, 3));
  REQUIRE(placed);
  CHECK(placed->placement.machines == std::vector<std::string>{"b"});
  CHECK(placed->placement.machine_of_rank == Machines{0, 0, 0, 0});
  CHECK(placed->placement.machine_of_shard == Machines{0, 0, 0});
  CHECK(placed->offers == std::vector<std::size_t>{1});
}

TEST_CASE("groups that fit nowhere whole are spread rank by rank") {
  const auto uneven = place_ranks({{"a", 1}, {"b", 3}}, spec_of(2, 2, 1));
  REQUIRE(uneven);
  CHECK(uneven->placement.machines == std::vector<std::string>{"b", "a"});
  CHECK(uneven->placement.machine_of_rank == Machines{0, 0, 1, 0});
  CHECK(uneven->offers == std::vector<std::size_t>{1, 0});
  const auto single = place_ranks({{"a", 1}, {"b", 1}, {"c", 1}}, spec_of(1, 3, 1));
  REQUIRE(single);
  CHECK(single->placement.machine_of_rank == Machines{0, 1, 2});
}

TEST_CASE("too few free slots place nothing") {
  CHECK_FALSE(place_ranks({{"a", 1}, {"b", 2}}, spec_of(2, 2, 1)));
  CHECK_FALSE(place_ranks({}, spec_of(1, 1, 1)));
}

TEST_CASE("no machine gets more ranks than it has slots, and every rank has one") {
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = 0; b < 4; ++b) {
      for (std::uint32_t devices = 1; devices < 4; ++devices) {
        const schemas::JobSpec spec = spec_of(2, devices, 2);
        const std::vector<SlotOffer> offers = {{"a", a}, {"b", b}, {"c", 2}};
        INFO(a << " " << b << " slots, groups of " << devices);
        const auto placed = place_ranks(offers, spec);
        REQUIRE(placed.has_value() == (a + b + 2 >= spec.ranks()));
        if (!placed) continue;
        const Machines& ranks = placed->placement.machine_of_rank;
        CHECK(ranks.size() == spec.ranks());
        REQUIRE(placed->offers.size() == placed->placement.machines.size());
        for (std::uint32_t machine = 0; machine < placed->offers.size(); ++machine) {
          const auto used = std::count(ranks.begin(), ranks.end(), machine);
          const SlotOffer& offer = offers[placed->offers[machine]];
          CHECK(used > 0);
          CHECK(used <= std::int64_t{offer.free_slots});
          CHECK(placed->placement.machines[machine] == offer.machine);
        }
      }
    }
  }
}

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

schemas::JobSpec gpu_spec(std::uint32_t machines, std::uint32_t devices, std::uint64_t memory) {
  schemas::JobSpec spec = spec_of(machines, devices, 1);
  spec.workers.device = schemas::WorkerDevice::gpu;
  spec.workers.memory = memory;
  return spec;
}

/// Free GPUs by their memory in GiB; each stands at its position, and its index is ten times that.
SlotOffer gpu_offer(const std::string& machine, const std::vector<std::uint64_t>& memory) {
  SlotOffer offer{machine, 8};
  for (std::uint32_t position = 0; position < memory.size(); ++position) {
    offer.free_gpus.push_back({{position, 10 * position}, memory[position] * kGiB, "gpu"});
  }
  return offer;
}

using Gpus = std::vector<GpuPlace>;

TEST_CASE("a rank takes the smallest GPU that is large enough, of equal ones the first") {
  const std::vector<SlotOffer> offers = {gpu_offer("a", {80, 40, 16, 40})};
  const auto small = place_ranks(offers, gpu_spec(1, 1, 0));
  REQUIRE(small);
  CHECK(small->slot_of_rank == Gpus{{2, 20}});
  const auto large = place_ranks(offers, gpu_spec(1, 3, 40 * kGiB));
  REQUIRE(large);
  CHECK(large->slot_of_rank == Gpus{{1, 10}, {3, 30}, {0, 0}});
  CHECK_FALSE(place_ranks(offers, gpu_spec(1, 4, 40 * kGiB)));
  CHECK_FALSE(place_ranks(offers, gpu_spec(1, 1, 80 * kGiB + 1)));
}

TEST_CASE("slots of CPUs and GPUs are not taken for each other") {
  const auto cpus = place_ranks({{"a", 2}}, spec_of(1, 2, 1));
  REQUIRE(cpus);
  CHECK(cpus->slot_of_rank.empty());
  CHECK_FALSE(place_ranks({{"a", 2}}, gpu_spec(1, 1, 0)));
  SlotOffer gpus = gpu_offer("b", {40, 40});
  gpus.free_slots = 0;
  CHECK_FALSE(place_ranks({gpus}, spec_of(1, 1, 1)));
  CHECK(place_ranks({gpus}, gpu_spec(1, 2, 0)));
}

TEST_CASE("groups of GPUs stay whole where as many are large enough") {
  const std::vector<SlotOffer> offers = {gpu_offer("a", {16, 40}), gpu_offer("b", {40, 40, 40})};
  const auto placed = place_ranks(offers, gpu_spec(1, 2, 40 * kGiB));
  REQUIRE(placed);
  CHECK(placed->placement.machines == std::vector<std::string>{"b"});
  CHECK(placed->slot_of_rank == Gpus{{0, 0}, {1, 10}});
  const auto spread = place_ranks(offers, gpu_spec(2, 2, 40 * kGiB));
  REQUIRE(spread);
  CHECK(spread->placement.machines == std::vector<std::string>{"b", "a"});
  CHECK(spread->placement.machine_of_rank == Machines{0, 0, 1, 0});
  CHECK(spread->slot_of_rank == Gpus{{0, 0}, {1, 10}, {1, 10}, {2, 20}});
}

/// Free GPUs by their models, all of one size.
SlotOffer offer_of_models(const std::string& machine, const std::vector<std::string>& models,
                          std::uint64_t memory_bytes = 80 * kGiB) {
  SlotOffer offer{machine, 0};
  for (std::uint32_t position = 0; position < models.size(); ++position) {
    offer.free_gpus.push_back({{position, position}, memory_bytes, models[position]});
  }
  return offer;
}

TEST_CASE("a reproducible job's GPUs are of one model, any other job's of any") {
  const std::vector<SlotOffer> one = {offer_of_models("a", {"A100", "H100", "H100"})};
  const auto placed = place_ranks(one, gpu_spec(1, 2, 0));
  REQUIRE(placed);
  CHECK(placed->slot_of_rank == Gpus{{1, 1}, {2, 2}});
  CHECK(placed->model == "H100");
  CHECK_FALSE(place_ranks(one, gpu_spec(1, 3, 0)));
  // The machine in between has none for it.
  const std::vector<SlotOffer> three = {offer_of_models("a", {"H100"}),
                                        offer_of_models("b", {"A100", "A100"}),
                                        offer_of_models("c", {"H100", "A100", "H100"})};
  const auto spread = place_ranks(three, gpu_spec(3, 1, 0));
  REQUIRE(spread);
  CHECK(spread->model == "A100");  // as many as of the other: the first by name
  const auto pinned = place_ranks(three, gpu_spec(3, 1, 0), "H100");
  REQUIRE(pinned);
  CHECK(pinned->placement.machines == std::vector<std::string>{"a", "c"});
  CHECK(pinned->slot_of_rank == Gpus{{0, 0}, {0, 0}, {2, 2}});
  CHECK(place_ranks(three, gpu_spec(3, 1, 0), "V100")->model == "A100");  // there is none
  schemas::JobSpec any = gpu_spec(1, 3, 0);
  any.reproducible = false;
  REQUIRE(place_ranks(one, any));
  CHECK(place_ranks(one, any)->slot_of_rank == Gpus{{0, 0}, {1, 1}, {2, 2}});
  CHECK(place_ranks(one, any)->model.empty());
  any = gpu_spec(1, 3, 0);  // whose sums have no order anyway
  any.consistency.cluster.mode = schemas::ConsistencyMode::eventual;
  CHECK(place_ranks(one, any));
}

TEST_CASE("of models that would do it is the one with whole groups, then the smallest, then more") {
  const auto model = [](const std::vector<SlotOffer>& offers, std::uint32_t devices) {
    const auto placed = place_ranks(offers, gpu_spec(1, devices, 0));
    return placed ? placed->model : "none";
  };
  const std::vector<SlotOffer> offers = {offer_of_models("a", {"L4", "H100", "H100"}, 40 * kGiB),
                                         offer_of_models("b", {"L4", "T4", "T4", "T4"}, 16 * kGiB)};
  CHECK(model(offers, 1) == "T4");
  CHECK(model(offers, 2) == "T4");
  CHECK(model({offers[0], offer_of_models("b", {"L4"}, 16 * kGiB)}, 2) == "H100");
  CHECK(model({offer_of_models("a", {"L4"}, 16 * kGiB), offers[0]}, 1) == "L4");
  CHECK(model({offer_of_models("a", {"L4", "T4", "T4"})}, 1) == "T4");
  CHECK(model({offer_of_models("a", {"T4", "L4"})}, 1) == "L4");
  CHECK(model(offers, 4) == "none");
}

/// A few machines, some of whose GPUs are free.
std::vector<SlotOffer> random_offers(std::mt19937_64& random) {
  std::vector<SlotOffer> offers;
  for (std::uint64_t machine = random() % 5; machine-- > 0;) {
    SlotOffer& offer = offers.emplace_back();
    offer.machine = std::to_string(machine);
    offer.free_slots = static_cast<std::uint32_t>(random() % 4);
    for (std::uint32_t position = 0; position < 6; ++position) {
      if (random() % 3 == 0) continue;
      const auto index = static_cast<std::uint32_t>(random() % 4);
      offer.free_gpus.push_back(
          {{position, index}, (1 + random() % 4) * kGiB, std::string(1, "ab"[random() % 2])});
    }
  }
  return offers;
}

/// How many whole groups fit, each on one machine.
std::size_t whole_groups(const std::vector<std::size_t>& free, const schemas::JobSpec& spec) {
  std::size_t groups = 0;
  for (const std::size_t slots : free) groups += slots / spec.workers.devices;
  return std::min<std::size_t>(groups, spec.workers.machines);
}

TEST_CASE("whatever is free, each rank has a GPU of its own with enough memory, or nobody has") {
  CHECK(rc::check([](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::vector<SlotOffer> offers = random_offers(random);
    schemas::JobSpec spec =
        gpu_spec(static_cast<std::uint32_t>(1 + random() % 3),
                 static_cast<std::uint32_t>(1 + random() % 4), random() % 5 * kGiB);
    spec.reproducible = false;
    std::vector<std::size_t> enough;  // GPUs by offer
    std::size_t all = 0;
    for (const SlotOffer& offer : offers) {
      enough.push_back(static_cast<std::size_t>(std::count_if(
          offer.free_gpus.begin(), offer.free_gpus.end(),
          [&](const FreeGpu& gpu) { return gpu.memory_bytes >= spec.workers.memory; })));
      all += enough.back();
    }
    const auto placed = place_ranks(offers, spec);
    RC_ASSERT(placed.has_value() == (all >= spec.ranks()));
    if (!placed) return;
    RC_ASSERT(placed->slot_of_rank.size() == spec.ranks());
    std::set<std::pair<std::size_t, std::uint32_t>> taken;  // positions by offer
    for (std::uint32_t rank = 0; rank < spec.ranks(); ++rank) {
      const std::size_t offer = placed->offers[placed->placement.machine_of_rank[rank]];
      const GpuPlace place = placed->slot_of_rank[rank];
      const auto& free = offers[offer].free_gpus;
      const auto gpu = std::find_if(free.begin(), free.end(),
                                    [&](const FreeGpu& one) { return one.place == place; });
      RC_ASSERT(gpu != free.end());
      RC_ASSERT(gpu->memory_bytes >= spec.workers.memory);
      RC_ASSERT(taken.emplace(offer, place.position).second);
    }
    std::size_t whole = 0;  // groups of consecutive ranks on one machine
    for (std::uint32_t group = 0; group < spec.workers.machines; ++group) {
      const auto first = placed->placement.machine_of_rank.begin() + group * spec.workers.devices;
      whole += std::all_of(first, first + spec.workers.devices,
                           [&](std::uint32_t machine) { return machine == *first; })
                   ? 1
                   : 0;
    }
    RC_ASSERT(whole >= whole_groups(enough, spec));
    const auto again = place_ranks(offers, spec);
    RC_ASSERT(again->slot_of_rank == placed->slot_of_rank);
    RC_ASSERT(again->placement.machine_of_rank == placed->placement.machine_of_rank);
  }));
}

TEST_CASE("whatever is free, a reproducible job gets GPUs of one model if one has enough") {
  CHECK(rc::check([](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::vector<SlotOffer> offers = random_offers(random);
    const schemas::JobSpec spec =
        gpu_spec(static_cast<std::uint32_t>(1 + random() % 3),
                 static_cast<std::uint32_t>(1 + random() % 3), random() % 5 * kGiB);
    const std::string preferred(random() % 2, 'b');
    std::map<std::string, std::size_t> enough;  // GPUs by model
    for (const std::string model : {"a", "b"}) {
      for (const SlotOffer& offer : offers) {
        enough[model] += static_cast<std::size_t>(
            std::count_if(offer.free_gpus.begin(), offer.free_gpus.end(), [&](const FreeGpu& gpu) {
              return gpu.model == model && gpu.memory_bytes >= spec.workers.memory;
            }));
      }
    }
    const auto fits = [&](const std::string& model) { return enough[model] >= spec.ranks(); };
    const auto placed = place_ranks(offers, spec, preferred);
    RC_ASSERT(placed.has_value() == (fits("a") || fits("b")));
    if (!placed) return;
    if (preferred == "b" && fits("b")) RC_ASSERT(placed->model == "b");
    std::set<std::pair<std::size_t, std::uint32_t>> taken;  // positions by offer
    for (std::uint32_t rank = 0; rank < spec.ranks(); ++rank) {
      const std::size_t offer = placed->offers[placed->placement.machine_of_rank[rank]];
      const GpuPlace place = placed->slot_of_rank[rank];
      const auto& free = offers[offer].free_gpus;
      const auto gpu = std::find_if(free.begin(), free.end(),
                                    [&](const FreeGpu& one) { return one.place == place; });
      RC_ASSERT(gpu != free.end());
      RC_ASSERT(gpu->model == placed->model);
      RC_ASSERT(gpu->memory_bytes >= spec.workers.memory);
      RC_ASSERT(taken.emplace(offer, place.position).second);
    }
    const auto again = place_ranks(offers, spec, preferred);
    RC_ASSERT(again->slot_of_rank == placed->slot_of_rank);
    RC_ASSERT(again->placement.machine_of_rank == placed->placement.machine_of_rank);
  }));
}

}  // namespace
}  // namespace troupe::control
