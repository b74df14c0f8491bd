// SPDX-License-Identifier: Apache-2.0
// What all slices of a job have in common: the tree of additions, the promises of both tiers, the
// plan of steps and who holds which rank. Immutable values shared by reference; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/addition_tree.h"
#include "store/schedule.h"

namespace troupe::store {

/// The rules of a job in one view.
struct SliceRules {
  AdditionTree tree;
  schemas::ConsistencySpec consistency;
  StepPlan steps;
  double nominal_count = 1.0;                  ///< N: samples of a whole step, V x batch
  std::vector<std::uint32_t> machine_of_rank;  ///< from the placement
  bool judged = false;                         ///< steps wait for a verdict (step_judge.h)

  bool device_sequential() const {
    return consistency.device.mode == schemas::ConsistencyMode::sequential;
  }
  bool cluster_sequential() const {
    return consistency.cluster.mode == schemas::ConsistencyMode::sequential;
  }
  /// Both tiers: runs are reproducible to the bit and version t belongs to step t.
  bool sequential() const { return device_sequential() && cluster_sequential(); }
  /// Ranks wait for their own contributions, so rounds of several slices may wait for each other's
  /// machines in a circle; a machine that has nothing to push then abstains (decision 0008).
  bool has_abstentions() const { return !device_sequential() && cluster_sequential(); }
  /// 1 + the highest machine that holds a rank.
  std::uint32_t machines() const;
  std::vector<std::uint32_t> ranks_of_machine(std::uint32_t machine) const;
};

/// The rules of a job's slices under a placement. invalid_argument when it does not place all ranks
/// or `start` has no records.
base::Result<SliceRules> make_rules(const schemas::JobSpec& job,
                                    const schemas::Placement& placement,
                                    const schemas::TrainingStart& start);

/// By rank, the machine that holds it where nothing else places the ranks, as in one process: each
/// group of the tree is a machine.
std::vector<std::uint32_t> machine_of_rank_by_group(const schemas::WorkersSpec& workers);

}  // namespace troupe::store
