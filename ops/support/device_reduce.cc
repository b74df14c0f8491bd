// SPDX-License-Identifier: Apache-2.0
// How rows are cut for reductions on GPUs.
#include "ops/support/device_reduce.h"

namespace troupe::ops {
namespace {

/// Longest rows that one thread takes, and that a warp takes.
constexpr std::int64_t kOfThread = 32, kOfWarp = 1024;
/// Lanes of rows that are neighbours in memory: a warp reads 32 rows at a time, or, where a thread
/// takes several of them, 8 packs.
constexpr int kAsideLanes = 8, kPackLanes = 32;
/// Elements that a lane takes of a part, as long as there are no more than kPartsMost parts, for
/// which a GPU has no more blocks at a time.
constexpr std::int64_t kOfLane = 64, kPartsMost = 1024;
/// The same where a thread takes packs of rows: blocks need many registers, so that few run at a
/// time, and many small ones leave less of the device idle at the end.
constexpr std::int64_t kOfPackLane = 16;

constexpr int kWarp = 32;

int lanes_for(std::int64_t length, bool aside, int each) {
  if (length <= kOfThread) return 1;
  if (aside) return each > 1 ? kPackLanes : kAsideLanes;
  return length <= kOfWarp ? kWarp : kBlockThreads;
}

/// Of rows of `runs` runs each: the longest that one thread takes, and lanes of the next ones.
constexpr std::int64_t kRunsOfThread = 4, kRunsOfFew = 32;
constexpr int kFewLanes = 8;

int lanes_for_runs(std::int64_t runs, int run) {
  if (runs <= kRunsOfThread) return 1;
  if (runs <= kRunsOfFew) return kFewLanes;
  return runs <= kOfLane / run * kWarp ? kWarp : kBlockThreads;  // one part
}

/// Cuts rows into parts, in units of runs.
void cut_rows(DeviceReduction& plan) {
  const std::int64_t of_lane = plan.each > 1 && plan.lanes > 1 ? kOfPackLane : kOfLane / plan.run;
  const std::int64_t runs = plan.length / plan.run, part = of_lane * plan.lanes;
  plan.parts = std::clamp<std::int64_t>((runs + part - 1) / part, 1, kPartsMost);
  plan.part_length = (runs + plan.parts - 1) / plan.parts * plan.run;
}

}  // namespace

DeviceReduction device_reduction(std::int64_t rows, std::int64_t length, bool aside, int each) {
  DeviceReduction plan;
  plan.rows = rows;
  plan.length = length;
  plan.aside = aside;
  plan.each = aside ? each : 1;
  plan.lanes = lanes_for(length, aside, plan.each);
  cut_rows(plan);
  return plan;
}

DeviceReduction reduction_by_runs(std::int64_t rows, std::int64_t length, int run) {
  TROUPE_CHECK(length % run == 0, "rows of whole runs");
  DeviceReduction plan;
  plan.rows = rows;
  plan.length = length;
  plan.run = run;
  plan.lanes = lanes_for_runs(length / run, run);
  cut_rows(plan);
  return plan;
}

}  // namespace troupe::ops
