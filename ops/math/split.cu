// SPDX-License-Identifier: Apache-2.0
// split on GPUs: a copy for each part.
#include "ops/support/device_blocks.h"
#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// A part without the axis is one with extent 1 there.
template <typename T>
base::Status run_split(const OpCall& call, const KernelContext& context, T) {
  const TensorDesc& data = call.inputs[0];
  const int axis = checked_axis(call.params.integer("axis"), data.shape).value();
  const AxisView whole = axis_view(data, axis);
  AxisView part = whole;
  part.extent = whole.extent / call.params.integer("num_outputs");
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * part.extent;
    TROUPE_TRY(copy_device_axis(context, context.inputs[0].as<T>(), whole,
                                device_output<T>(call, context, i), part, {begin, 0, part.extent}));
  }
  return {};
}

/// Parts that lose the axis have three.
bool split_may_be_last(const OpCall& call) {
  return call.outputs[0].shape.rank() == call.inputs[0].shape.rank();
}

}  // namespace

std::span<const BackendKernel> kernels_split_cuda() {
  static const BackendKernel kernels[] = {
      {"split",
       planes_device_kernel(split_may_be_last, [](auto&&... x) { return run_split(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
