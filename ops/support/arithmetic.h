// SPDX-License-Identifier: Apache-2.0
// Definitions that arithmetic operators share: two broadcast inputs, one input, or one input and
// the parameter `scalar`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/support/broadcast.h"
#include "ops/support/pointwise.h"

namespace troupe::ops {

/// Reference kernel of out = f(a, b) with broadcasting.
template <typename F>
KernelDef broadcast_kernel(F f) {
  return reference_kernel([f](const OpCall& call, const KernelContext& context) {
    return with_floating(context.outputs[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const T* a = context.inputs[0].as<T>();
      const T* b = context.inputs[1].as<T>();
      T* out = context.outputs[0].as<T>();
      const BroadcastWalk walk =
          broadcast_walk(call.outputs[0].shape, call.inputs[0].shape, call.inputs[1].shape);
      const auto inner = static_cast<std::size_t>(walk.rank - 1);
      const std::int64_t step_a = walk.stride_a[inner];
      const std::int64_t step_b = walk.stride_b[inner];
      // Steps that the compiler knows make vector code.
      const auto run_with = [&](auto known_a, auto known_b) {
        const auto run = [&](std::int64_t o, std::int64_t i, std::int64_t j, std::int64_t count) {
          for (std::int64_t k = 0; k < count; ++k)
            out[o + k] = f(a[i + k * known_a], b[j + k * known_b]);
        };
        parallel_ranges(context, context.outputs[0].elements(),
                        [&](auto begin, auto end) { for_each_run(walk, begin, end, run); });
      };
      constexpr std::integral_constant<std::int64_t, 0> kStay;
      constexpr std::integral_constant<std::int64_t, 1> kNext;
      if (step_a == 1 && step_b == 1) {
        run_with(kNext, kNext);
      } else if (step_a == 1 && step_b == 0) {
        run_with(kNext, kStay);
      } else if (step_a == 0 && step_b == 1) {
        run_with(kStay, kNext);
      } else {
        run_with(step_a, step_b);
      }
      return base::Status();
    });
  });
}

/// A definition with everything but name, aliases, doc, gradient and kernel: inputs lhs and rhs.
OpDef broadcast_definition();
/// Likewise for one input `data`.
OpDef unary_definition();
/// unary_definition() with the parameter `scalar` (a number known when the graph is made; what
/// changes from step to step is a 0-d input of the broadcasting operators).
OpDef scalar_definition();
/// Samples of broadcast_definition() with values in [low, high).
std::vector<Sample> broadcast_samples(double low = -1.0, double high = 1.0);
/// Samples of unary_definition() with values in [low, high).
std::vector<Sample> unary_samples(double low = -1.0, double high = 1.0);
/// Samples of scalar_definition() with values in [low, high) and the given scalar.
std::vector<Sample> scalar_samples(const std::string& scalar, double low = -1.0, double high = 1.0);

/// Reference kernel of out = f(data, scalar).
template <typename F>
KernelDef scalar_kernel(F f) {
  return pointwise_kernel<1>([f](const Params& params, auto zero) {
    using T = decltype(zero);
    return [f, scalar = static_cast<T>(params.real("scalar"))](T x) { return f(x, scalar); };
  });
}

/// OpDef::pointwise of one term of "$0" and "#0", the parameter `scalar`.
std::function<std::optional<PointwiseTerm>(const Params&)> scalar_term(std::string text);

/// The text of the node's parameter `scalar`, for nodes of its gradient.
std::string scalar_text(const GradientBuilder& builder);

/// A gradient of one entry per input, computed only where wanted; each `make(dy)` gives the value
/// before it is summed back to the input's shape.
using PartialDerivative = std::function<Value(GradientBuilder&, Value dy)>;
GradientFunction broadcast_gradient(PartialDerivative lhs, PartialDerivative rhs);
/// The form "<name>_elemwise" of a broadcasting operator, complete but for back-ends, for inputs of
/// one shape, which are inferred from each other. The derivatives are those of its gradient.
OpDef elemwise_form(const OpDef& broadcasting, std::vector<std::string> aliases,
                    const PartialDerivative& lhs, const PartialDerivative& rhs);
/// The gradient of a one-input operator.
GradientFunction unary_gradient(PartialDerivative data);

}  // namespace troupe::ops
