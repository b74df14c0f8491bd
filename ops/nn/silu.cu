// SPDX-License-Identifier: Apache-2.0
// silu and its gradient on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_silu_cuda() {
  static const BackendKernel kernels[] = {
      {"silu", plain_device_kernel<1>(pointwise::Silu())},
      {"silu_backward", plain_device_kernel<2>(pointwise::Silu())}};
  return kernels;
}

}  // namespace troupe::ops
