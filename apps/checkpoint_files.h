// SPDX-License-Identifier: Apache-2.0
// What this program's agents and coordinators do with the files in jobs' folders of checkpoints.
#pragma once

#include "cluster/checkpoint_files.h"
#include "schemas/job_spec.h"

namespace troupe::apps {

/// With files below `roots.checkpoints` alone; permission_denied elsewhere.
cluster::CheckpointFiles checkpoint_files(const schemas::JobRoots& roots);

}  // namespace troupe::apps
