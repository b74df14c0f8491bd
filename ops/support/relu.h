// SPDX-License-Identifier: Apache-2.0
// relu over a buffer, for kernels whose library has none that keeps NaN.
// A thread that leads the context's team.
#pragma once

#include "ops/kernel.h"

namespace troupe::ops {

/// data[i] = 0 where data[i] <= 0, for i < count. NaN stays.
void relu_in_place(const KernelContext& context, float* data, std::int64_t count);

}  // namespace troupe::ops
