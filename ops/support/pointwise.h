// SPDX-License-Identifier: Apache-2.0
// Reference kernels of element-wise operators from one scalar function, for f32 and f64.
// Outputs may share memory with inputs of the same shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/op.h"
#include "ops/support/chunks.h"

namespace troupe::ops {

/// out[i] = f(in0[i], in1[i], ...) over `Arity` inputs of the output's shape, where
/// f = make(params, T{}) takes and returns T. `make` is called once per run.
template <std::size_t Arity, typename Make>
KernelDef pointwise_kernel(Make make) {
  return reference_kernel([make](const OpCall& call, const KernelContext& context) {
    return with_floating(context.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto f = make(call.params, zero);
      std::array<const T*, Arity> in;
      for (std::size_t k = 0; k < Arity; ++k) in[k] = context.inputs[k].as<T>();
      T* out = context.outputs[0].as<T>();
      parallel_ranges(context, context.outputs[0].elements(), [&](auto begin, auto end) {
        [&]<std::size_t... K>(std::index_sequence<K...>) {
          for (std::int64_t i = begin; i < end; ++i) out[i] = f(in[K][i]...);
        }
        (std::make_index_sequence<Arity>());
      });
      return base::Status();
    });
  });
}

/// pointwise_kernel() for a function without parameters.
template <std::size_t Arity, typename F>
KernelDef plain_pointwise_kernel(F f) {
  return pointwise_kernel<Arity>([f](const Params&, auto) { return f; });
}

}  // namespace troupe::ops
