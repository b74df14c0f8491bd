// SPDX-License-Identifier: Apache-2.0
// negate on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_negate_cuda() {
  static const BackendKernel kernels[] = {{"negate", plain_device_kernel<1>(pointwise::Negate())}};
  return kernels;
}

}  // namespace troupe::ops
