// SPDX-License-Identifier: Apache-2.0
// slice_axis and its gradient on GPUs. The gradient is the slice with zeros around it.
#include "ops/math/slice_axis.h"
#include "ops/support/device_blocks.h"
#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run_slice(const OpCall& call, const KernelContext& context, T) {
  const SliceRange range = checked_slice(call.params, call.inputs[0].shape).value();
  return copy_device_axis(context, context.inputs[0].as<T>(), axis_view(call.inputs[0], range.axis),
                          device_output<T>(call, context, 0),
                          axis_view(call.outputs[0], range.axis),
                          {range.begin, 0, range.end - range.begin});
}

template <typename T>
base::Status run_slice_backward(const OpCall& call, const KernelContext& context, T) {
  const SliceRange range = checked_slice(call.params, call.outputs[0].shape).value();
  const AxisView whole = axis_view(call.outputs[0], range.axis);
  Borders borders;
  borders.rank = 3;
  borders[0] = {0, 0, whole.outer};
  borders[1] = {range.begin, whole.extent - range.end, range.end - range.begin};
  borders[2] = {0, 0, whole.inner};
  return for_each_index(
      context, call.outputs[0].shape.elements(),
      BorderAt<T>{context.inputs[0].as<T>(), device_output<T>(call, context, 0), borders, 0});
}

}  // namespace

std::span<const BackendKernel> kernels_slice_axis_cuda() {
  static const BackendKernel kernels[] = {
      {"slice_axis",
       planes_device_kernel(always_may_be_last, [](auto&&... x) { return run_slice(x...); })},
      {"slice_axis_backward", planes_device_kernel(always_may_be_last, [](auto&&... x) {
         return run_slice_backward(x...);
       })}};
  return kernels;
}

}  // namespace troupe::ops
