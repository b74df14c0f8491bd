// SPDX-License-Identifier: Apache-2.0
// subtract on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_subtract_cuda() {
  static const BackendKernel kernels[] = {
      {"subtract", broadcast_device_kernel(pointwise::Difference())},
      {"subtract_elemwise", broadcast_device_kernel(pointwise::Difference())},
      {"subtract_scalar", scalar_device_kernel(pointwise::Difference())},
      {"reverse_subtract_scalar", scalar_device_kernel(pointwise::ReverseDifference())}};
  return kernels;
}

}  // namespace troupe::ops
