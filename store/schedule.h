// SPDX-License-Identifier: Apache-2.0
// When things happen in a job, counted in steps: its plan of steps with the barriers at which
// everybody meets, and the learning rate of each step. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schemas/job_spec.h"
#include "store/loss_scale.h"

namespace troupe::store {

/// A step beyond all others.
inline constexpr std::uint64_t kNoStep = std::numeric_limits<std::uint64_t>::max();

/// A job's steps. Barriers (the start, ends of epochs, checkpoints, the end) are steps that no rank
/// begins before every contribution of earlier steps is in its weights, in every mode. A checkpoint
/// out of turn adds one while the job runs.
struct StepPlan {
  std::uint64_t start = 0;             ///< the step that training begins with (resume: the cut)
  std::uint64_t total = 1;             ///< steps of the whole job
  std::uint64_t epoch_steps = 1;       ///< steps of one epoch
  std::uint64_t checkpoint_steps = 0;  ///< between two checkpoints; 0: only one at the end
  bool checkpoints = false;            ///< false: none at all
  /// The last two checkpoints out of turn, ascending: of earlier ones nobody speaks any more.
  std::vector<std::uint64_t> extra_cuts = {};

  bool is_barrier(std::uint64_t step) const;
  /// The last barrier at or before `step`; at least `start`.
  std::uint64_t barrier_at(std::uint64_t step) const;
  /// The first barrier behind `step`; at most `total`.
  std::uint64_t barrier_after(std::uint64_t step) const;
  /// True for a step whose weights are a checkpoint of this run.
  bool is_cut(std::uint64_t step) const;
  /// The same without those out of turn.
  bool is_planned_cut(std::uint64_t step) const;
  /// Makes `step` a barrier and a cut, unless it is one. Call it before any rank has begun that
  /// step. False: it is outside of the run, or below an earlier one, and nothing has changed.
  bool add_cut(std::uint64_t step);
};

/// The steps of a job over `records` training records, from `start` on. An epoch has
/// ceil(records / (ranks x batch)) steps; CHECKs that there are records.
StepPlan make_step_plan(const schemas::JobSpec& job, std::uint64_t records, std::uint64_t start);

/// A period in steps; 0 stays 0 (never).
std::uint64_t period_steps(const schemas::Period& period, std::uint64_t steps_per_epoch);

/// When the schedule runs: the length of an epoch and of all epochs.
struct ScheduleSpan {
  std::uint64_t steps_per_epoch = 1;
  std::uint64_t steps_total = 1;
};

/// How weights follow from gradients: an optimizer and its schedule, as data.
struct UpdateRule {
  schemas::OptimizerSpec optimizer;
  schemas::ScheduleSpec schedule;
  ScheduleSpan span;
  bool check_range = true;  ///< what leaves the range of the 16 bits it travels in is an error
  std::optional<LossScaleRule> loss_scale = {};  ///< where the keys have one
};

/// The learning rate of step `step` (from 0), lr being the optimizer's. With w warm-up steps:
///   step < w: warmup_lr + (lr - warmup_lr) * (step + 1) / w
///   constant: lr
///   cosine:   final_lr + (lr - final_lr) * (1 + cos(pi * (step - w) / (total - w))) / 2
double learning_rate(const schemas::ScheduleSpec& schedule, double lr, const ScheduleSpan& span,
                     std::uint64_t step);

}  // namespace troupe::store
