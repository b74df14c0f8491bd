// SPDX-License-Identifier: Apache-2.0
// From what `troupe agent --devices` says and what the machine has to what its agent offers. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/device_list.h"
#include "gpu/inventory.h"
#include "schemas/offer_messages.h"

namespace troupe::apps {

/// The GPU slots of `list` on a machine with these GPUs, in the list's order. resource_exhausted:
/// there is none, and why; or one that is not there, beside those that are.
base::Result<std::vector<schemas::GpuOffer>> gpu_slots_of(const cluster::DeviceList& list,
                                                          const gpu::Inventory& inventory);

/// How many GPUs these slots are on.
std::size_t distinct_gpus(const std::vector<schemas::GpuOffer>& gpus);
/// "GPU 0: NVIDIA H100 80GB HBM3, 79.2 GiB; GPU 1: ...", each GPU once.
std::string gpus_text(const std::vector<schemas::GpuOffer>& gpus);

}  // namespace troupe::apps
