// SPDX-License-Identifier: Apache-2.0
// Making plans; what a plan cannot promise is refused.
#include "actors/job_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "schemas/codec.h"
#include "store/step_judge.h"

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
  if (store::judge_rule(spec).judges()) {
    for (std::uint32_t shard = 0; shard < layout.shards(); ++shard) {
      const auto held = static_cast<std::size_t>(
          std::ranges::count(layout.slices(), shard, &store::SliceInfo::shard));
      if (held <= schemas::kFactsMax) continue;
      return base::error(
          Errc::invalid_argument,
          "parameter server {} would hold {} slices; a step in f16 or with clip_norm "
          "is judged over {} at most: give servers.shards more",
          shard, held, schemas::kFactsMax);
    }
  }
  return JobPlan{std::move(job), generation, std::move(spec), std::move(keys), std::move(layout)};
}

}  // namespace troupe::actors
