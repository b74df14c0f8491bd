// SPDX-License-Identifier: Apache-2.0
// add_scaled: a tensor and a multiple of another in one pass, which is what hand-written updates
// (w -= eta * g) are.
#include "ops/support/chunks.h"
#include "ops/support/update.h"

namespace troupe::ops {
namespace {

template <typename T>
base::Status run(const OpCall&, const KernelContext& context, T) {
  const T* lhs = context.inputs[0].as<T>();
  const T* rhs = context.inputs[1].as<T>();
  const T factor = *context.inputs[2].as<T>();
  T* out = context.outputs[0].as<T>();
  parallel_ranges(context, context.outputs[0].elements(), [=](auto begin, auto end) {
    for (auto i = begin; i < end; ++i) out[i] = lhs[i] + rhs[i] * factor;
  });
  return {};
}

OpDef add_scaled_definition() {
  OpDef op = update_definition(2);
  op.name = "add_scaled";
  op.doc =
      "`out = lhs + rhs * factor` of tensors of one shape. `factor` is a 0-d tensor of their "
      "dtype, so that another factor changes no attribute. Product and sum are rounded one by one.";
  op.inputs = names({"lhs", "rhs", "factor"});
  op.outputs = names({"out"});
  op.in_place = {{0, 0}};
  op.flops = [](const OpCall& call) {
    return 2.0 * static_cast<double>(call.outputs[0].shape.elements());
  };
  op.kernels = {floating_kernel([](auto&&... x) { return run(x...); })};
  op.samples = {{.title = "matrix", .inputs = {{3, 37}, {3, 37}, {}}, .gradient = false},
                {.title = "large",
                 .inputs = {{1 << 18}, {1 << 18}, {}},
                 .gradient = false,
                 .benchmark = true}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_add_scaled() {
  static const std::vector<OpDef> operators = {add_scaled_definition()};
  return operators;
}

}  // namespace troupe::ops
