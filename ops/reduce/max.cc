// SPDX-License-Identifier: Apache-2.0
// max over axes, and its gradient, which ties share.
#include "ops/support/broadcast.h"
#include "ops/support/reduce.h"
#include "ops/support/reduce_backward.h"

namespace troupe::ops {
namespace {

using base::Shape;

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return {{b.add1("max_backward", {*b.output_gradient(0), b.input(0), b.output(0)},
                  b.params().to_attributes())}};
}

OpDef max_definition() {
  OpDef op = reduce_definition("max_backward");
  op.name = "max";
  op.aliases = {"max_axis"};
  op.doc = "Largest value over `axis`; NaN wins; -inf of nothing.";
  op.gradient = gradient;
  op.kernels = {reduce_kernel<MaxReducer>(walk_of_axes, finish_total)};
  return op;
}

/// Counts the ties of every output, then shares the gradient among them.
base::Status run_backward(const OpCall& call, const KernelContext& context) {
  return with_floating(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape& data = call.inputs[1].shape;
    const Shape out = reduced_shape(call.params, data, true).value();
    const BroadcastWalk walk = broadcast_walk(data, out, out);
    const std::int64_t step = walk.stride_a[static_cast<std::size_t>(walk.rank - 1)];
    const T* dy = context.inputs[0].as<T>();
    const T* x = context.inputs[1].as<T>();
    const T* y = context.inputs[2].as<T>();
    T* dx = context.outputs[0].as<T>();
    auto* ties = reinterpret_cast<std::int64_t*>(context.scratch.data());
    std::fill(ties, ties + out.elements(), 0);
    for_each_run(walk, 0, data.elements(), [&](auto i, auto o, auto, auto count) {
      for (std::int64_t k = 0; k < count; ++k)
        ties[o + k * step] += is_maximum(x[i + k], y[o + k * step]);
    });
    parallel_ranges(context, data.elements(), [&](auto begin, auto end) {
      for_each_run(walk, begin, end, [&](auto i, auto o, auto, auto count) {
        for (std::int64_t k = 0; k < count; ++k) {
          const std::int64_t from = o + k * step;
          dx[i + k] = is_maximum(x[i + k], y[from]) ? dy[from] / static_cast<T>(ties[from]) : T{0};
        }
      });
    });
    return base::Status();
  });
}

OpDef max_backward_definition() {
  OpDef op = reduce_backward_definition();
  op.name = "max_backward";
  op.doc =
      "Gradient of max: the output's gradient shared evenly among the elements that equal the "
      "maximum (as PyTorch's amax; MXNet gives each of them the whole).";
  op.inputs = names({"out_gradient", "data", "out"});
  op.shape_only_inputs = {};
  op.kernels = {reference_kernel(run_backward, [](const OpCall& call) {
    return static_cast<std::size_t>(call.inputs[0].shape.elements()) * sizeof(std::int64_t);
  })};
  for (Sample& sample : op.samples) sample.inputs.push_back(sample.inputs.front());
  return op;
}

}  // namespace

std::span<const OpDef> ops_max() {
  static const std::vector<OpDef> operators = {max_definition(), max_backward_definition()};
  return operators;
}

}  // namespace troupe::ops
