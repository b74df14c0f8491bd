// SPDX-License-Identifier: Apache-2.0
// divide on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Quotient {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a / b;
  }
};

struct ReverseQuotient {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return b / a;
  }
};

}  // namespace

std::span<const BackendKernel> kernels_divide_cuda() {
  static const BackendKernel kernels[] = {
      {"divide", broadcast_device_kernel(Quotient())},
      {"divide_elemwise", broadcast_device_kernel(Quotient())},
      {"divide_scalar", scalar_device_kernel(Quotient())},
      {"reverse_divide_scalar", scalar_device_kernel(ReverseQuotient())}};
  return kernels;
}

}  // namespace troupe::ops
