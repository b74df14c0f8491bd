// SPDX-License-Identifier: Apache-2.0
// divide on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {

std::span<const BackendKernel> kernels_divide_cuda() {
  static const BackendKernel kernels[] = {
      {"divide", broadcast_device_kernel(pointwise::Quotient())},
      {"divide_elemwise", broadcast_device_kernel(pointwise::Quotient())},
      {"divide_scalar", scalar_device_kernel(pointwise::Quotient())},
      {"reverse_divide_scalar", scalar_device_kernel(pointwise::ReverseQuotient())}};
  return kernels;
}

}  // namespace troupe::ops
