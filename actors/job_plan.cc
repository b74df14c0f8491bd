// SPDX-License-Identifier: Apache-2.0
// Making plans and rules from what the coordinator sends.
#include "actors/job_plan.h"

#include <fmt/core.h>

namespace troupe::actors {

using base::Errc;

base::Result<JobPlan> make_job_plan(std::string job, std::uint64_t generation,
                                    schemas::JobSpec spec, std::vector<schemas::KeyInfo> keys,
                                    std::uint64_t slice_bytes) {
  for (const schemas::TierSpec& tier : {spec.consistency.device, spec.consistency.cluster}) {
    if (tier.max_staleness && tier.mode == schemas::ConsistencyMode::sequential) {
      return base::error(Errc::invalid_argument,
                         "[consistency] max_staleness {} has a meaning for eventual tiers only",
                         *tier.max_staleness);
    }
  }
  TROUPE_TRY_ASSIGN(store::SliceLayout layout,
                    store::SliceLayout::create(keys, spec.shards(), slice_bytes));
  return JobPlan{std::move(job), generation, std::move(spec), std::move(keys), std::move(layout)};
}

base::Result<store::SliceRules> make_rules(const JobPlan& plan, const schemas::Placement& placement,
                                           const schemas::TrainingStart& start) {
  const schemas::JobSpec& spec = plan.spec;
  if (placement.machine_of_rank.size() != spec.ranks()) {
    return base::error(Errc::invalid_argument, "[placement] view {} places {} ranks of {}",
                       placement.view, placement.machine_of_rank.size(), spec.ranks());
  }
  if (start.records == 0) {
    return base::error(Errc::invalid_argument, "[start] the training data has no records");
  }
  return store::SliceRules{store::AdditionTree(spec.workers.machines, spec.workers.devices),
                           spec.consistency, store::make_step_plan(spec, start.records, start.step),
                           static_cast<double>(spec.ranks()) * spec.data.batch,
                           placement.machine_of_rank};
}

}  // namespace troupe::actors
