// SPDX-License-Identifier: Apache-2.0
// clip and its gradient on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Values between `low` and `high`; NaN stays.
template <typename W>
struct Limited {
  W low, high;
  TROUPE_HOST_DEVICE W operator()(W x) const { return x < low ? low : (x > high ? high : x); }
};

template <typename W>
struct LimitedGradient {
  W low, high;
  TROUPE_HOST_DEVICE W operator()(W dy, W x) const { return x >= low && x <= high ? dy : W{0}; }
};

/// Elements<W> between the call's limits.
template <template <typename> class Elements>
struct MakeLimited {
  template <typename W>
  Elements<W> operator()(const Params& params, W) const {
    return {static_cast<W>(params.real("a_min")), static_cast<W>(params.real("a_max"))};
  }
};

}  // namespace

std::span<const BackendKernel> kernels_clip_cuda() {
  static const BackendKernel kernels[] = {
      {"clip", pointwise_device_kernel<1>(MakeLimited<Limited>())},
      {"clip_backward", pointwise_device_kernel<2>(MakeLimited<LimitedGradient>())}};
  return kernels;
}

}  // namespace troupe::ops
