// SPDX-License-Identifier: Apache-2.0
// upsampling on GPUs: every position is read once for each of its square.
#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run_upsampling(const OpCall& call, const KernelContext& context, T) {
  const base::Shape& data = call.inputs[0].shape;
  const std::int64_t scale = call.params.integer("scale"), width = data[3], row = width * scale;
  CopyMap map;
  map.add(data.elements(0, 3), width, scale * row);
  map.add(scale, 0, row);
  map.add(width, 1, scale);
  map.add(scale, 0, 1);
  return copy_elements(context, map, context.inputs[0].as<T>(), device_output<T>(call, context, 0));
}

}  // namespace

std::span<const BackendKernel> kernels_upsampling_cuda() {
  static const BackendKernel kernels[] = {
      {"upsampling", real_device_kernel([](auto&&... x) { return run_upsampling(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
