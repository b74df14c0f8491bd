// SPDX-License-Identifier: Apache-2.0
// add on GPUs: with broadcasting, of equal shapes, and with a number.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Sum {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W a, W b) const {
    return a + b;
  }
};

}  // namespace

std::span<const BackendKernel> kernels_add_cuda() {
  static const BackendKernel kernels[] = {{"add", broadcast_device_kernel(Sum())},
                                          {"add_elemwise", broadcast_device_kernel(Sum())},
                                          {"add_scalar", scalar_device_kernel(Sum())}};
  return kernels;
}

}  // namespace troupe::ops
