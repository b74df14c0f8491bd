// SPDX-License-Identifier: Apache-2.0
// copy and stop_gradient on GPUs, of any dtype; what is added to is floating.
#include "ops/support/device_copy.h"
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

base::Status run_copy(const OpCall& call, const KernelContext& context) {
  if (call.modes.empty() || call.modes[0] != WriteMode::add) return move_all(context);
  return with_real(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const PointwiseAt<1, T, Same> at{
        {context.inputs[0].as<T>()}, device_output<T>(call, context, 0), {}};
    return for_each_pack<T>(context, flat_elements<T>(context), at.aligned(), at);
  });
}

}  // namespace

std::span<const BackendKernel> kernels_copy_cuda() {
  static const BackendKernel kernels[] = {{"copy", any_device_kernel(run_copy)},
                                          {"stop_gradient", any_device_kernel(run_copy)}};
  return kernels;
}

}  // namespace troupe::ops
