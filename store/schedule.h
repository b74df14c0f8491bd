// SPDX-License-Identifier: Apache-2.0
// Learning rates by step, and stretches of training in steps. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "schemas/job_spec.h"

namespace troupe::store {

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
};

/// The learning rate of step `step` (from 0), lr being the optimizer's. With w warm-up steps:
///   step < w: warmup_lr + (lr - warmup_lr) * (step + 1) / w
///   constant: lr
///   cosine:   final_lr + (lr - final_lr) * (1 + cos(pi * (step - w) / (total - w))) / 2
double learning_rate(const schemas::ScheduleSpec& schedule, double lr, const ScheduleSpan& span,
                     std::uint64_t step);

}  // namespace troupe::store
