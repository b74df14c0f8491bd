// SPDX-License-Identifier: Apache-2.0
// concat and its gradient on GPUs: a copy for each part.
#include "ops/support/device_blocks.h"
#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run_concat(const OpCall& call, const KernelContext& context, T) {
  const TensorDesc& whole = call.outputs[0];
  const int axis = checked_axis(call.params.integer("dim"), whole.shape).value();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const std::int64_t extent = call.inputs[i].shape[axis];
    TROUPE_TRY(copy_device_axis(context, context.inputs[i].as<T>(), axis_view(call.inputs[i], axis),
                                device_output<T>(call, context, 0), axis_view(whole, axis),
                                {0, begin, extent}));
    begin += extent;
  }
  return {};
}

template <typename T>
base::Status run_concat_backward(const OpCall& call, const KernelContext& context, T) {
  const TensorDesc& whole = call.inputs[0];
  const int axis = checked_axis(call.params.integer("dim"), whole.shape).value();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const std::int64_t extent = call.outputs[i].shape[axis];
    TROUPE_TRY(copy_device_axis(context, context.inputs[0].as<T>(), axis_view(whole, axis),
                                device_output<T>(call, context, i),
                                axis_view(call.outputs[i], axis), {begin, 0, extent}));
    begin += extent;
  }
  return {};
}

}  // namespace

std::span<const BackendKernel> kernels_concat_cuda() {
  static const BackendKernel kernels[] = {
      {"concat",
       planes_device_kernel(always_may_be_last, [](auto&&... x) { return run_concat(x...); })},
      {"concat_backward", planes_device_kernel(always_may_be_last, [](auto&&... x) {
         return run_concat_backward(x...);
       })}};
  return kernels;
}

}  // namespace troupe::ops
