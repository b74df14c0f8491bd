// SPDX-License-Identifier: Apache-2.0
// add on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_add_cuda() {
  static const BackendKernel kernels[] = {
      {"add", broadcast_device_kernel(pointwise::Sum())},
      {"add_elemwise", broadcast_device_kernel(pointwise::Sum())},
      {"add_scalar", scalar_device_kernel(pointwise::Sum())}};
  return kernels;
}

}  // namespace troupe::ops
