// SPDX-License-Identifier: Apache-2.0
// sqrt on GPUs.
#include <cmath>

#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Sqrt {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::sqrt;
    return sqrt(x);
  }
};

}  // namespace

std::span<const BackendKernel> kernels_sqrt_cuda() {
  static const BackendKernel kernels[] = {{"sqrt", plain_device_kernel<1>(Sqrt())}};
  return kernels;
}

}  // namespace troupe::ops
