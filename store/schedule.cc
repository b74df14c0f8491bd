// SPDX-License-Identifier: Apache-2.0
// Arithmetic of steps and barriers, and the schedules' formulas.
#include "store/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace troupe::store {
namespace {

/// The last multiple of `period` at or before `step`; 0 when there is no period.
std::uint64_t multiple_at(std::uint64_t step, std::uint64_t period) {
  return period == 0 ? 0 : step - step % period;
}

}  // namespace

std::uint64_t period_steps(const schemas::Period& period, std::uint64_t steps_per_epoch) {
  return period.unit == schemas::Period::Unit::epochs ? period.count * steps_per_epoch
                                                      : period.count;
}

std::uint64_t StepPlan::barrier_at(std::uint64_t step) const {
  if (step >= total) return total;
  const std::uint64_t cut = checkpoints ? multiple_at(step, checkpoint_steps) : 0;
  std::uint64_t barrier = std::max({start, multiple_at(step, epoch_steps), cut});
  for (const std::uint64_t extra : extra_cuts) {
    if (extra <= step) barrier = std::max(barrier, extra);
  }
  return barrier;
}

std::uint64_t StepPlan::barrier_after(std::uint64_t step) const {
  std::uint64_t next = multiple_at(step, epoch_steps) + epoch_steps;
  if (checkpoints && checkpoint_steps > 0) {
    next = std::min(next, multiple_at(step, checkpoint_steps) + checkpoint_steps);
  }
  for (const std::uint64_t extra : extra_cuts) {
    if (extra > step) next = std::min(next, extra);
  }
  return std::min(std::max(next, start), total);
}

bool StepPlan::is_barrier(std::uint64_t step) const {
  return barrier_at(step) == step;
}

bool StepPlan::is_cut(std::uint64_t step) const {
  return is_planned_cut(step) ||
         std::find(extra_cuts.begin(), extra_cuts.end(), step) != extra_cuts.end();
}

bool StepPlan::is_planned_cut(std::uint64_t step) const {
  if (!checkpoints || step <= start) return false;
  return step == total || (checkpoint_steps > 0 && step % checkpoint_steps == 0);
}

bool StepPlan::add_cut(std::uint64_t step) {
  if (!checkpoints || step <= start || step > total) return false;
  if (is_cut(step)) return true;
  if (!extra_cuts.empty() && step < extra_cuts.back()) return false;
  constexpr std::size_t kKept = 2;
  if (extra_cuts.size() == kKept) extra_cuts.erase(extra_cuts.begin());
  extra_cuts.push_back(step);
  return true;
}

StepPlan make_step_plan(const schemas::JobSpec& job, std::uint64_t records, std::uint64_t start) {
  TROUPE_CHECK(records > 0, "a job has at least one training record");
  const std::uint64_t samples = std::uint64_t{job.ranks()} * job.data.batch;
  StepPlan plan;
  plan.start = start;
  plan.epoch_steps = (records + samples - 1) / samples;
  plan.total = plan.epoch_steps * job.train.epochs;
  if (job.train.max_steps) plan.total = std::min(plan.total, *job.train.max_steps);
  plan.checkpoints = !job.checkpoint.dir.empty();
  plan.checkpoint_steps = period_steps(job.checkpoint.every, plan.epoch_steps);
  return plan;
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
