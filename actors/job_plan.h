// SPDX-License-Identifier: Apache-2.0
// JobPlan: what every role of a job knows before it starts, the same everywhere. Immutable value
// shared by reference; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/slice_layout.h"
#include "store/slice_rules.h"

namespace troupe::actors {

/// A job's keys, slices and promises in one generation.
struct JobPlan {
  std::string job;
  std::uint64_t generation = 1;
  schemas::JobSpec spec;
  std::vector<schemas::KeyInfo> keys;
  store::SliceLayout layout;
};

/// Errors as of SliceLayout::create; also a bound of staleness for a sequential tier.
base::Result<JobPlan> make_job_plan(std::string job, std::uint64_t generation,
                                    schemas::JobSpec spec, std::vector<schemas::KeyInfo> keys,
                                    std::uint64_t slice_bytes = store::kSliceBytes);

/// The rules of the job's slices under a placement; an error when it does not place all ranks.
base::Result<store::SliceRules> make_rules(const JobPlan& plan, const schemas::Placement& placement,
                                           const schemas::TrainingStart& start);

}  // namespace troupe::actors
