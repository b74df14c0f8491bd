// SPDX-License-Identifier: Apache-2.0
// copy and stop_gradient on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Same {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    return x;
  }
};

}  // namespace

std::span<const BackendKernel> kernels_copy_cuda() {
  static const BackendKernel kernels[] = {{"copy", plain_device_kernel<1>(Same())},
                                          {"stop_gradient", plain_device_kernel<1>(Same())}};
  return kernels;
}

}  // namespace troupe::ops
