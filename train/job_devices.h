// SPDX-License-Identifier: Apache-2.0
// Which devices of this machine a job that runs in one process computes on. Pure; any thread.
#pragma once

#include <vector>

#include "base/device.h"
#include "base/status.h"
#include "gpu/inventory.h"
#include "schemas/job_spec.h"

namespace troupe::train {

/// For LocalRunOptions::devices. GPUs: one for each rank, in the inventory's order, of those that
/// can be used and have the memory that the job asks for, all of one model where the job is to be
/// reproducible; where there are fewer, ranks share them in turns. None for a job on CPUs.
/// resource_exhausted: the machine has no GPU, and why; or none has the memory, beside those there
/// are.
base::Result<std::vector<base::Device>> choose_gpus(const schemas::JobSpec& job,
                                                    const gpu::Inventory& inventory);

}  // namespace troupe::train
