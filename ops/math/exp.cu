// SPDX-License-Identifier: Apache-2.0
// exp on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_exp_cuda() {
  static const BackendKernel kernels[] = {{"exp", plain_device_kernel<1>(pointwise::Exp())}};
  return kernels;
}

}  // namespace troupe::ops
