// SPDX-License-Identifier: Apache-2.0
// sqrt on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_sqrt_cuda() {
  static const BackendKernel kernels[] = {{"sqrt", plain_device_kernel<1>(pointwise::Sqrt())}};
  return kernels;
}

}  // namespace troupe::ops
