// SPDX-License-Identifier: Apache-2.0
// square on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_square_cuda() {
  static const BackendKernel kernels[] = {{"square", plain_device_kernel<1>(pointwise::Square())}};
  return kernels;
}

}  // namespace troupe::ops
