// SPDX-License-Identifier: Apache-2.0
// silu and its gradient on GPUs.
#include <cmath>

#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Silu {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::exp;
    return x / (W{1} + exp(-x));
  }
  /// The gradient of data x.
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W dy, W x) const {
    using std::exp;
    const W s = W{1} / (W{1} + exp(-x));
    return dy * (s * (W{1} + x * (W{1} - s)));
  }
};

}  // namespace

std::span<const BackendKernel> kernels_silu_cuda() {
  static const BackendKernel kernels[] = {{"silu", plain_device_kernel<1>(Silu())},
                                          {"silu_backward", plain_device_kernel<2>(Silu())}};
  return kernels;
}

}  // namespace troupe::ops
