// SPDX-License-Identifier: Apache-2.0
// What all slices of a job have in common: the tree of additions, the promises of both tiers, and
// the steps at which everybody meets. Immutable values shared by reference; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/status.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/addition_tree.h"

namespace troupe::store {

/// A step beyond all others.
inline constexpr std::uint64_t kNoStep = std::numeric_limits<std::uint64_t>::max();

/// A job's steps. Barriers (the start, ends of epochs, checkpoints, the end) are steps that no rank
/// begins before every contribution of earlier steps is in its weights, in every mode.
struct StepPlan {
  std::uint64_t start = 0;             ///< the step that training begins with (resume: the cut)
  std::uint64_t total = 1;             ///< steps of the whole job
  std::uint64_t epoch_steps = 1;       ///< steps of one epoch
  std::uint64_t checkpoint_steps = 0;  ///< between two checkpoints; 0: only one at the end
  bool checkpoints = false;            ///< false: none at all

  bool is_barrier(std::uint64_t step) const;
  /// The last barrier at or before `step`; at least `start`.
  std::uint64_t barrier_at(std::uint64_t step) const;
  /// The first barrier behind `step`; at most `total`.
  std::uint64_t barrier_after(std::uint64_t step) const;
  /// True for a step whose weights are a checkpoint of this run.
  bool is_cut(std::uint64_t step) const;
};

/// The steps of a job over `records` training records, from `start` on. An epoch has
/// ceil(records / (ranks x batch)) steps; CHECKs that there are records.
StepPlan make_step_plan(const schemas::JobSpec& job, std::uint64_t records, std::uint64_t start);

/// The rules of a job in one view.
struct SliceRules {
  AdditionTree tree;
  schemas::ConsistencySpec consistency;
  StepPlan steps;
  double nominal_count = 1.0;                  ///< N: samples of a whole step, V x batch
  std::vector<std::uint32_t> machine_of_rank;  ///< from the placement

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
