// SPDX-License-Identifier: Apache-2.0
// log on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_log_cuda() {
  static const BackendKernel kernels[] = {{"log", plain_device_kernel<1>(pointwise::Log())}};
  return kernels;
}

}  // namespace troupe::ops
