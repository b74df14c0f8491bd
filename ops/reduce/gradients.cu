// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions, and broadcast_like, on GPUs: numbers that are repeated along axes.
#include "ops/support/device_copy.h"
#include "ops/support/reduce.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run_broadcast_like(const OpCall& call, const KernelContext& context, T) {
  const base::Shape& data = call.inputs[0].shape;
  const CopyMap map = broadcast_map(broadcast_walk(call.outputs[0].shape, data, data));
  return copy_elements(context, map, context.inputs[0].as<T>(), device_output<T>(call, context, 0));
}

/// out = in / by, repeated.
template <typename T>
struct ShareAt {
  const T* in;
  DeviceOutput<T> out;
  CopyMap map;
  Wide<T> by;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const CopyPlace place = map.place(i);
    out.store(place.to, static_cast<Wide<T>>(in[place.from]) / by);
  }
};

/// The shape that `data` is reduced to, with the reduced axes.
base::Shape kept_shape(const OpCall& call, const base::Shape& data) {
  return reduced_shape(call.params, data, true).value();
}

template <typename T>
base::Status run_sum_backward(const OpCall& call, const KernelContext& context, T) {
  const base::Shape &data = call.outputs[0].shape, sum = kept_shape(call, data);
  return copy_elements(context, broadcast_map(broadcast_walk(data, sum, sum)),
                       context.inputs[0].as<T>(), device_output<T>(call, context, 0));
}

template <typename T>
base::Status run_mean_backward(const OpCall& call, const KernelContext& context, T) {
  const base::Shape &data = call.outputs[0].shape, mean = kept_shape(call, data);
  const std::int64_t count = data.elements() / std::max<std::int64_t>(1, mean.elements());
  return for_each_index(
      context, data.elements(),
      ShareAt<T>{context.inputs[0].as<T>(), device_output<T>(call, context, 0),
                 broadcast_map(broadcast_walk(data, mean, mean)), static_cast<Wide<T>>(count)});
}

}  // namespace

std::span<const BackendKernel> kernels_gradients_cuda() {
  static const BackendKernel kernels[] = {
      {"broadcast_like", real_device_kernel([](auto&&... x) { return run_broadcast_like(x...); })},
      {"sum_backward", real_device_kernel([](auto&&... x) { return run_sum_backward(x...); })},
      {"mean_backward", real_device_kernel([](auto&&... x) { return run_mean_backward(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
