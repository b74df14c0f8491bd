// SPDX-License-Identifier: Apache-2.0
// Arithmetic of steps and barriers, and who holds which rank.
#include "store/slice_rules.h"

#include <algorithm>

#include "base/check.h"
#include "store/schedule.h"

namespace troupe::store {
namespace {

/// The last multiple of `period` at or before `step`; 0 when there is no period.
std::uint64_t multiple_at(std::uint64_t step, std::uint64_t period) {
  return period == 0 ? 0 : step - step % period;
}

}  // namespace

std::uint64_t StepPlan::barrier_at(std::uint64_t step) const {
  if (step >= total) return total;
  const std::uint64_t cut = checkpoints ? multiple_at(step, checkpoint_steps) : 0;
  return std::max({start, multiple_at(step, epoch_steps), cut});
}

std::uint64_t StepPlan::barrier_after(std::uint64_t step) const {
  std::uint64_t next = multiple_at(step, epoch_steps) + epoch_steps;
  if (checkpoints && checkpoint_steps > 0) {
    next = std::min(next, multiple_at(step, checkpoint_steps) + checkpoint_steps);
  }
  return std::min(std::max(next, start), total);
}

bool StepPlan::is_barrier(std::uint64_t step) const {
  return barrier_at(step) == step;
}

bool StepPlan::is_cut(std::uint64_t step) const {
  if (!checkpoints || step <= start) return false;
  return step == total || (checkpoint_steps > 0 && step % checkpoint_steps == 0);
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

std::uint32_t SliceRules::machines() const {
  const auto last = std::max_element(machine_of_rank.begin(), machine_of_rank.end());
  return last == machine_of_rank.end() ? 0 : *last + 1;
}

std::vector<std::uint32_t> SliceRules::ranks_of_machine(std::uint32_t machine) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < machine_of_rank.size(); ++rank) {
    if (machine_of_rank[rank] == machine) ranks.push_back(rank);
  }
  return ranks;
}

base::Result<SliceRules> make_rules(const schemas::JobSpec& job,
                                    const schemas::Placement& placement,
                                    const schemas::TrainingStart& start) {
  if (placement.machine_of_rank.size() != job.ranks()) {
    return base::error(base::Errc::invalid_argument, "[placement] view {} places {} ranks of {}",
                       placement.view, placement.machine_of_rank.size(), job.ranks());
  }
  if (start.records == 0) {
    return base::error(base::Errc::invalid_argument, "[start] the training data has no records");
  }
  return SliceRules{AdditionTree(job.workers.machines, job.workers.devices), job.consistency,
                    make_step_plan(job, start.records, start.step),
                    static_cast<double>(job.ranks()) * job.data.batch, placement.machine_of_rank};
}

std::vector<std::uint32_t> machine_of_rank_by_group(const schemas::WorkersSpec& workers) {
  std::vector<std::uint32_t> machine_of_rank;
  for (std::uint32_t rank = 0; rank < workers.machines * workers.devices; ++rank) {
    machine_of_rank.push_back(rank / workers.devices);
  }
  return machine_of_rank;
}

}  // namespace troupe::store
