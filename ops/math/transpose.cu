// SPDX-License-Identifier: Apache-2.0
// transpose on GPUs: a copy along the output's axes, by tiles of packs where it can be.
#include "ops/math/transpose.h"
#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run_transpose(const OpCall& call, const KernelContext& context, T) {
  const base::Shape &data = call.inputs[0].shape, &output = call.outputs[0].shape;
  const AxisOrder order = read_axis_order(call.params, data.rank()).value();
  CopyMap map;
  for (int i = 0; i < data.rank(); ++i) {
    const int axis = order[static_cast<std::size_t>(i)];
    map.add(data[axis], data.elements(axis + 1, data.rank()), output.elements(i + 1, data.rank()));
  }
  return copy_elements(context, map, context.inputs[0].as<T>(), device_output<T>(call, context, 0));
}

}  // namespace

std::span<const BackendKernel> kernels_transpose_cuda() {
  static const BackendKernel kernels[] = {
      {"transpose", real_device_kernel([](auto&&... x) { return run_transpose(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
