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

}  // namespace troupe::actors
