// SPDX-License-Identifier: Apache-2.0
// One slice of a small job at a device server, for the tests of what a slice there consists of.
#pragma once

#include <utility>
#include <vector>

#include "actors/device_gather.h"
#include "store/slice_rules.h"

namespace troupe::actors::testing {

inline constexpr auto kSequential = schemas::ConsistencyMode::sequential;
inline constexpr auto kEventual = schemas::ConsistencyMode::eventual;

/// Two tiers without a bound of staleness.
inline schemas::ConsistencySpec modes(schemas::ConsistencyMode device,
                                      schemas::ConsistencyMode cluster) {
  return {{device, {}}, {cluster, {}}};
}

/// 2 x 2 ranks on the machines named, 8 steps, barriers at 0, 4 and 8.
inline store::SliceRules slice_rules(schemas::ConsistencySpec consistency,
                                     std::vector<std::uint32_t> machine_of_rank = {0, 0, 1, 1}) {
  store::StepPlan steps;
  steps.total = 8;
  steps.epoch_steps = 4;
  return {store::AdditionTree(2, 2), consistency, steps, 4.0, std::move(machine_of_rank)};
}

/// The bytes of one slice.
inline base::Buffer slice_bytes() {
  return base::make_host_buffer(16);
}

/// A rank's gradient of one sample; without bytes: of none.
inline RankPush gradient(std::uint32_t rank, std::uint64_t step,
                         base::Buffer data = slice_bytes()) {
  const double count = data ? 1.0 : 0.0;
  return {rank, step, count, std::move(data)};
}

/// Ends the next work of `gather` with new bytes; the work as it was given. Throws when there is
/// none.
template <typename Gather>
GatherWork run_next(Gather& gather) {
  GatherWork work = gather.next_work().value();
  gather.done(work.id, slice_bytes());
  return work;
}

/// Ends all work there is; how much it was.
template <typename Gather>
std::size_t run_all(Gather& gather) {
  std::size_t works = 0;
  while (auto work = gather.next_work()) {
    gather.done(work->id, slice_bytes());
    ++works;
  }
  return works;
}

}  // namespace troupe::actors::testing
