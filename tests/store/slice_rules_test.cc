// SPDX-License-Identifier: Apache-2.0
// A job's barriers and checkpoints in steps, and its rules under a placement.
#include "store/slice_rules.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace troupe::store {
namespace {

using schemas::Period;

/// 2 machines x 2 devices x batch 8: 32 samples a step.
schemas::JobSpec job() {
  schemas::JobSpec spec;
  spec.workers.machines = 2;
  spec.workers.devices = 2;
  spec.data.batch = 8;
  spec.train.epochs = 3;
  spec.checkpoint.dir = "/checkpoints";
  spec.checkpoint.every = {4, Period::Unit::steps};
  return spec;
}

schemas::Placement placement(std::vector<std::uint32_t> machine_of_rank) {
  schemas::Placement placement;
  placement.view = 7;
  placement.machine_of_rank = std::move(machine_of_rank);
  return placement;
}

TEST_CASE("ends of epochs, checkpoints and the end of the job are barriers") {
  const StepPlan plan = make_step_plan(job(), 300, 0);  // 9 full steps and a last one of 12 samples
  CHECK(plan.epoch_steps == 10);
  CHECK(plan.total == 30);
  std::vector<std::uint64_t> barriers;
  std::vector<std::uint64_t> cuts;
  for (std::uint64_t step = 0; step <= plan.total; ++step) {
    if (plan.is_barrier(step)) barriers.push_back(step);
    if (plan.is_cut(step)) cuts.push_back(step);
  }
  CHECK(barriers == std::vector<std::uint64_t>{0, 4, 8, 10, 12, 16, 20, 24, 28, 30});
  CHECK(cuts == std::vector<std::uint64_t>{4, 8, 12, 16, 20, 24, 28, 30});
  for (std::uint64_t step = 0; step < plan.total; ++step) {
    const std::uint64_t next = plan.barrier_after(step);
    CHECK(next == *std::upper_bound(barriers.begin(), barriers.end(), step));
    CHECK(plan.barrier_at(next - 1) == plan.barrier_at(step));
  }
}

TEST_CASE("a resumed job begins with a barrier that is no checkpoint of its own") {
  schemas::JobSpec spec = job();
  spec.train.max_steps = 22;
  const StepPlan plan = make_step_plan(spec, 300, 13);
  CHECK(plan.total == 22);
  CHECK(plan.is_barrier(13));
  CHECK_FALSE(plan.is_cut(13));
  CHECK(plan.barrier_at(15) == 13);
  CHECK(plan.barrier_after(13) == 16);
  CHECK(plan.barrier_after(20) == 22);
  CHECK(plan.is_cut(22));
  spec.checkpoint.dir.clear();
  CHECK_FALSE(make_step_plan(spec, 300, 13).is_cut(22));
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
