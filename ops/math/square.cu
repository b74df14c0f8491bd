// SPDX-License-Identifier: Apache-2.0
// square on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Square {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    return x * x;
  }
};

}  // namespace

std::span<const BackendKernel> kernels_square_cuda() {
  static const BackendKernel kernels[] = {{"square", plain_device_kernel<1>(Square())}};
  return kernels;
}

}  // namespace troupe::ops
