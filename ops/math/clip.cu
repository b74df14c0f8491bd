// SPDX-License-Identifier: Apache-2.0
// clip and its gradient on GPUs.
#include "ops/support/device_kernel.h"
#include "ops/support/pointwise_functions.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

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
      {"clip", pointwise_device_kernel<1>(MakeLimited<pointwise::Limited>())},
      {"clip_backward", pointwise_device_kernel<2>(MakeLimited<pointwise::LimitedGradient>())}};
  return kernels;
}

}  // namespace troupe::ops
