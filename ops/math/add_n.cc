// SPDX-License-Identifier: Apache-2.0
// add_n: the sum of any number of tensors, in the order of the inputs.
#include "ops/support/chunks.h"
#include "ops/support/variadic.h"

namespace troupe::ops {
namespace {

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return std::vector<std::optional<Value>>(static_cast<std::size_t>(b.input_count()),
                                           *b.output_gradient(0));
}

/// ((in0 + in1) + in2) + ...: the order is part of the operator's meaning, because gradients that
/// meet at one value must add up to the same bits however the graph is run.
base::Status run(const OpCall&, const KernelContext& context) {
  return with_floating(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    T* out = context.outputs[0].as<T>();
    parallel_ranges(context, context.outputs[0].elements(), [&](auto begin, auto end) {
      const T* first = context.inputs[0].as<T>();
      for (auto i = begin; i < end; ++i) out[i] = first[i];
      for (const base::TensorView& input : context.inputs.subspan(1)) {
        const T* x = input.as<T>();
        for (auto i = begin; i < end; ++i) out[i] += x[i];
      }
    });
    return base::Status();
  });
}

OpDef add_n_definition() {
  OpDef op;
  op.name = "add_n";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"ElementWiseSum", "_sum"};
  op.doc = "`out = ((data0 + data1) + data2) + ...`, all of one shape, added in this order.";
  op.params = {num_args_param()};
  op.inputs = numbered_names("data");
  op.outputs = names({"out"});
  op.gradient = gradient;
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.flops = [](const OpCall& call) {
    return static_cast<double>(call.inputs.size() - 1) *
           static_cast<double>(call.outputs[0].shape.elements());
  };
  op.pointwise = [](const Params& params) {
    return PointwiseTerm{sum_term(params.integer("num_args"))};
  };
  op.kernels = {reference_kernel(run)};
  op.samples = {
      {.title = "three", .attributes = {{"num_args", "3"}}, .inputs = {{3, 4}, {3, 4}, {3, 4}}},
      {.title = "one", .attributes = {{"num_args", "1"}}, .inputs = {{5}}}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_add_n() {
  static const std::vector<OpDef> operators = {add_n_definition()};
  return operators;
}

}  // namespace troupe::ops
