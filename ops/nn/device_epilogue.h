// SPDX-License-Identifier: Apache-2.0
// What a library's products on GPUs leave to our own kernels (convolution.cu): bias and relu where
// no engine takes them with the product, and the gradient of a bias.
#pragma once

#include <cstddef>

#include "ops/kernel.h"

namespace troupe::ops {

/// Output 0 = relu(output 0 + bias), in place; `bias` (one for each channel, axis 1) null: none.
base::Status finish_output(const OpCall& call, const KernelContext& context,
                           const base::TensorView* bias, bool relu);

/// Scratch bytes of sum_output_gradient().
std::size_t output_gradient_sum_bytes(const OpCall& call);
/// Output 1 = sums of input 0, the output's gradient, over all axes but the channels'.
base::Status sum_output_gradient(const OpCall& call, const KernelContext& context,
                                 std::byte* scratch);

}  // namespace troupe::ops
