// SPDX-License-Identifier: Apache-2.0
// The rules of a job under a placement.
#include "store/slice_rules.h"

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

/// 2 machines x 2 devices x batch 8: 32 samples a step.
schemas::JobSpec job() {
  schemas::JobSpec spec;
  spec.workers.machines = 2;
  spec.workers.devices = 2;
  spec.data.batch = 8;
  return spec;
}

schemas::Placement placement(std::vector<std::uint32_t> machine_of_rank) {
  schemas::Placement placement;
  placement.view = 7;
  placement.machine_of_rank = std::move(machine_of_rank);
  return placement;
}

TEST_CASE("rules say what the job promises and who holds which rank") {
  schemas::JobSpec spec = job();
  spec.consistency.device.mode = schemas::ConsistencyMode::eventual;
  const auto rules = make_rules(spec, placement({0, 2, 2, 0}), {10, 300});
  REQUIRE(rules.ok());
  CHECK(rules->tree.ranks() == 4);
  CHECK(rules->tree.contains({1, 0, 1, 2}));  // a group of two
  CHECK(rules->steps.start == 10);
  CHECK(rules->nominal_count == 32.0);
  CHECK_FALSE(rules->device_sequential());
  CHECK(rules->cluster_sequential());
  CHECK(rules->machines() == 3);
  CHECK(rules->ranks_of_machine(0) == std::vector<std::uint32_t>{0, 3});
  CHECK(rules->ranks_of_machine(1).empty());
}

TEST_CASE("a placement of too few ranks and data without records have no rules") {
  const base::Status few = make_rules(job(), placement({0, 0, 1}), {0, 300}).status();
  CHECK(few.code() == base::Errc::invalid_argument);
  CHECK(few.text() == "[placement] view 7 places 3 ranks of 4");
  const base::Status empty = make_rules(job(), placement({0, 0, 1, 1}), {0, 0}).status();
  CHECK(empty.code() == base::Errc::invalid_argument);
  CHECK(empty.text() == "[start] the training data has no records");
}

TEST_CASE("where nothing else places the ranks, a group of the tree is a machine") {
  CHECK(machine_of_rank_by_group({2, 3, 1}) == std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1});
  CHECK(machine_of_rank_by_group({3, 1, 4}) == std::vector<std::uint32_t>{0, 1, 2});
}

}  // namespace
}  // namespace troupe::store
