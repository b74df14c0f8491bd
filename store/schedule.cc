// SPDX-License-Identifier: Apache-2.0
// The schedules' formulas.
#include "store/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::store {

std::uint64_t period_steps(const schemas::Period& period, std::uint64_t steps_per_epoch) {
  return period.unit == schemas::Period::Unit::epochs ? period.count * steps_per_epoch
                                                      : period.count;
}

double learning_rate(const schemas::ScheduleSpec& schedule, double lr, const ScheduleSpan& span,
                     std::uint64_t step) {
  const std::uint64_t warmup = period_steps(schedule.warmup, span.steps_per_epoch);
  if (step < warmup) {
    const double share = static_cast<double>(step + 1) / static_cast<double>(warmup);
    return schedule.warmup_lr + (lr - schedule.warmup_lr) * share;
  }
  if (schedule.kind == schemas::ScheduleKind::constant) return lr;
  const double length = static_cast<double>(std::max(span.steps_total, warmup + 1) - warmup);
  const double share = std::min(static_cast<double>(step - warmup) / length, 1.0);
  return schedule.final_lr +
         (lr - schedule.final_lr) * (1.0 + std::cos(std::numbers::pi * share)) / 2.0;
}

}  // namespace troupe::store
