// SPDX-License-Identifier: Apache-2.0
// exp on GPUs.
#include <cmath>

#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Exp {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::exp;
    return exp(x);
  }
};

}  // namespace

std::span<const BackendKernel> kernels_exp_cuda() {
  static const BackendKernel kernels[] = {{"exp", plain_device_kernel<1>(Exp())}};
  return kernels;
}

}  // namespace troupe::ops
