// SPDX-License-Identifier: Apache-2.0
// negate on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Negate {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    return -x;
  }
};

}  // namespace

std::span<const BackendKernel> kernels_negate_cuda() {
  static const BackendKernel kernels[] = {{"negate", plain_device_kernel<1>(Negate())}};
  return kernels;
}

}  // namespace troupe::ops
