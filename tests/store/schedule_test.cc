// SPDX-License-Identifier: Apache-2.0
// A job's barriers and checkpoints in steps, and learning rates at their corners: what the
// formulas say at the start, the end and between.
#include "store/schedule.h"

#include <algorithm>

#include "tests/support/catch.h"

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

TEST_CASE("a cut out of turn is a barrier and a checkpoint from when it is told") {
  StepPlan plan = make_step_plan(job(), 300, 1);
  CHECK(plan.barrier_after(4) == 8);
  REQUIRE(plan.add_cut(6));
  CHECK(plan.is_barrier(6));
  CHECK(plan.is_cut(6));
  CHECK_FALSE(plan.is_planned_cut(6));
  CHECK(plan.barrier_after(4) == 6);
  CHECK(plan.barrier_after(6) == 8);
  CHECK(plan.barrier_at(7) == 6);
  CHECK(plan.barrier_at(9) == 8);
  CHECK(plan.add_cut(8));  // planned anyhow
  CHECK(plan.is_planned_cut(8));
  CHECK_FALSE(plan.add_cut(5));  // in front of one
  CHECK_FALSE(plan.add_cut(1));
  CHECK_FALSE(plan.add_cut(31));
  CHECK(plan.add_cut(30));
  CHECK(plan.add_cut(9));
  CHECK(plan.add_cut(11));
  CHECK(plan.extra_cuts == std::vector<std::uint64_t>{9, 11});
  schemas::JobSpec none = job();
  none.checkpoint.dir.clear();
  CHECK_FALSE(make_step_plan(none, 300, 1).add_cut(6));
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

TEST_CASE("a cosine schedule falls from lr to final_lr behind its warm-up", "[schedule]") {
  schemas::ScheduleSpec spec;
  spec.kind = schemas::ScheduleKind::cosine;
  spec.warmup = {10, schemas::Period::Unit::steps};
  spec.final_lr = 0.01;
  const ScheduleSpan span{50, 110};
  CHECK(learning_rate(spec, 0.1, span, 0) == Approx(0.01));
  CHECK(learning_rate(spec, 0.1, span, 9) == Approx(0.1));
  CHECK(learning_rate(spec, 0.1, span, 10) == Approx(0.1));
  CHECK(learning_rate(spec, 0.1, span, 60) == Approx(0.055));
  CHECK(learning_rate(spec, 0.1, span, 110) == Approx(0.01));
  CHECK(learning_rate(spec, 0.1, span, 500) == Approx(0.01));
}

TEST_CASE("a constant schedule is constant and warms up by epochs", "[schedule]") {
  schemas::ScheduleSpec spec;
  spec.warmup = {1, schemas::Period::Unit::epochs};
  const ScheduleSpan span{4, 8};
  CHECK(learning_rate(spec, 0.4, span, 0) == Approx(0.1));
  CHECK(learning_rate(spec, 0.4, span, 3) == Approx(0.4));
  CHECK(learning_rate(spec, 0.4, span, 7) == Approx(0.4));
}

}  // namespace
}  // namespace troupe::store
