// SPDX-License-Identifier: Apache-2.0
// What decides a job's bits beside its data files, as text, so that a checkpoint of another job is
// refused and the difference named. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "schemas/job_spec.h"

namespace troupe::train {

/// Lines "section.key = value" of everything that the bits depend on. Shards, placement,
/// prefetching, max_steps, checkpoints and paths are not in it; but that of the first weights is:
/// who names others wants another job, not the checkpoint's.
std::string job_fingerprint(const schemas::JobSpec& job);

/// failed_precondition naming `checkpoint` and the first line that differs.
base::Status check_fingerprint(std::string_view checkpoint, std::string_view there,
                               std::string_view here);

}  // namespace troupe::train
