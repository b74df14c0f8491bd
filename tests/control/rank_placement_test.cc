// SPDX-License-Identifier: Apache-2.0
// Which machine gets what: groups stay whole where they fit, servers go round, and the same offers
// give the same placement.
#include "control/rank_placement.h"

#include <algorithm>

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

}  // namespace
}  // namespace troupe::control
