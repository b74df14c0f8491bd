// SPDX-License-Identifier: Apache-2.0
// relu over a buffer, for kernels whose library has none that keeps NaN.
// A thread that leads the context's team.
#pragma once

#include "ops/kernel.h"

namespace troupe::ops {

/// Zero in every element of f32 or bf16 that is <= 0, padding included. NaN stays.
void relu_in_place(const KernelContext& context, const base::TensorView& data);

}  // namespace troupe::ops
