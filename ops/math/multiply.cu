// SPDX-License-Identifier: Apache-2.0
// multiply on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_multiply_cuda() {
  static const BackendKernel kernels[] = {
      {"multiply", broadcast_device_kernel(pointwise::Product())},
      {"multiply_elemwise", broadcast_device_kernel(pointwise::Product())},
      {"multiply_scalar", scalar_device_kernel(pointwise::Product())}};
  return kernels;
}

}  // namespace troupe::ops
