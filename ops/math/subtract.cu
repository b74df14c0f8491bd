// SPDX-License-Identifier: Apache-2.0
// subtract on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Difference {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a - b;
  }
};

struct ReverseDifference {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return b - a;
  }
};

}  // namespace

std::span<const BackendKernel> kernels_subtract_cuda() {
  static const BackendKernel kernels[] = {
      {"subtract", broadcast_device_kernel(Difference())},
      {"subtract_elemwise", broadcast_device_kernel(Difference())},
      {"subtract_scalar", scalar_device_kernel(Difference())},
      {"reverse_subtract_scalar", scalar_device_kernel(ReverseDifference())}};
  return kernels;
}

}  // namespace troupe::ops
