// SPDX-License-Identifier: Apache-2.0
// Which GPUs an agent's child may see, and as which it sees them. A process numbers those that it
// sees by itself, and another one than the agent's may be missing by then: names do not change.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/offer_messages.h"

namespace troupe::cluster {

/// See the top of the file.
struct ChildDevices {
  std::string environment;  ///< "CUDA_VISIBLE_DEVICES=..."; of a child on CPUs it ends there
  std::vector<std::uint32_t> gpus;  ///< by position of what was asked: the child's own index
};

/// For a child whose ranks compute on `gpus`, which are indices in `offers`. Where one has no UUID
/// the agent's own numbers have to do.
ChildDevices child_devices(const std::vector<schemas::GpuOffer>& offers,
                           const std::vector<std::uint32_t>& gpus);

}  // namespace troupe::cluster
