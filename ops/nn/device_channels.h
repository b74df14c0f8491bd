// SPDX-License-Identifier: Apache-2.0
// Channels filled up with zeros, for libraries whose products want them in packs (convolution.cu).
#pragma once

#include <cstdint>

#include "ops/kernel.h"

namespace troupe::ops {

/// `filled`, of (rows, channels) = `tensor`, whose own channels are last, and zeros behind them.
base::Status fill_channels(const KernelContext& context, const base::TensorView& tensor,
                           std::int64_t channels, void* filled);
/// `tensor`, whose own channels are last, = the first ones of each row of `filled`; added to what
/// it holds where `adds`.
base::Status cut_channels(const KernelContext& context, const void* filled, std::int64_t channels,
                          const base::TensorView& tensor, bool adds);

}  // namespace troupe::ops
