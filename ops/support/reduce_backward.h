// SPDX-License-Identifier: Apache-2.0
// Definitions of reductions and of their gradients, which repeat a gradient along reduced axes.
#pragma once

#include <cstdint>
#include <string>

#include "ops/support/broadcast.h"
#include "ops/support/reduce.h"

namespace troupe::ops {

/// data -> out over reduce_params(); the gradient is the operator `backward` of
/// (out_gradient, data), of whose data only the shape is used.
OpDef reduce_definition(std::string backward);
/// (out_gradient, data) -> data_gradient.
OpDef reduce_backward_definition();

/// Reference kernel of the gradient out_gradient / divisor(inputs per output), repeated.
template <typename Divisor>
KernelDef repeat_kernel(Divisor divisor) {
  return reference_kernel([divisor](const OpCall& call, const KernelContext& context) {
    return with_floating(context.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const base::Shape& data = call.inputs[1].shape;
      const base::Shape out = reduced_shape(call.params, data, true).value();
      const BroadcastWalk walk = broadcast_walk(data, out, out);
      const std::int64_t step = walk.stride_a[static_cast<std::size_t>(walk.rank - 1)];
      const std::int64_t outputs = std::max<std::int64_t>(1, out.elements());
      const T by = static_cast<T>(divisor(static_cast<double>(data.elements() / outputs)));
      const T* dy = context.inputs[0].as<T>();
      T* dx = context.outputs[0].as<T>();
      parallel_ranges(context, data.elements(), [&](auto begin, auto end) {
        for_each_run(walk, begin, end, [&](auto i, auto o, auto, auto count) {
          for (std::int64_t k = 0; k < count; ++k) dx[i + k] = dy[o + k * step] / by;
        });
      });
      return base::Status();
    });
  });
}

}  // namespace troupe::ops
