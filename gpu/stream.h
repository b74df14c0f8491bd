// SPDX-License-Identifier: Apache-2.0
// Streams of GPUs, for EngineOptions::streams.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/stream.h"

namespace troupe::gpu {

/// Which of two streams of a device goes first where both have work.
enum class StreamPriority : std::uint8_t { normal, high };

/// A stream of `device`; the errors of check_device(), or what the device answers. Destroying it
/// waits for its work.
base::Result<std::unique_ptr<base::Stream>> make_stream(base::Device device,
                                                        StreamPriority priority);

}  // namespace troupe::gpu
