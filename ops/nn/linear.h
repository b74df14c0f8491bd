// SPDX-License-Identifier: Apache-2.0
// What operators that are linear in data and in weight (convolution, fully_connected) share: an
// optional bias, and a gradient of two operators, `<name>_backward_data` and
// `<name>_backward_weights`. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/nn/epilogue.h"

namespace troupe::ops {

/// What tells one of them from another; its three operators are defined from this.
struct LinearOperator {
  std::string name;                            ///< of the forward operator
  std::vector<ParamDef> params;                ///< no_bias_param() among them
  InferShape infer;                            ///< from (data, weight[, bias]) to (output)
  std::function<double(const OpCall&)> flops;  ///< of any of the three
  bool epilogue = false;                       ///< the forward operator takes one
};

/// The parameter `no_bias`.
inline ParamDef no_bias_param() {
  return {.name = "no_bias",
          .type = ParamType::boolean,
          .initial = false,
          .doc = "True: there is no input `bias`."};
}

/// True when the call has an input `bias`.
inline bool has_bias(const Params& p) {
  return !p.boolean("no_bias");
}

/// Inference of (output_gradient, weight, data) and (data_gradient) by that of the forward
/// operator.
inline InferShape infer_backward_data(InferShape infer) {
  return [infer = std::move(infer)](const Params& p, std::vector<base::Shape>& in,
                                    std::vector<base::Shape>& out) -> base::Status {
    TROUPE_TRY(refine("data", in[2], out[0]));
    std::vector<base::Shape> inputs = {in[2], in[1]};
    std::vector<base::Shape> outputs = {in[0]};
    TROUPE_TRY(infer(p, inputs, outputs));
    in = {outputs[0], inputs[1], inputs[0]};
    out[0] = inputs[0];
    return {};
  };
}

/// Inference of (output_gradient, data) and (weight_gradient[, bias_gradient]), likewise.
inline InferShape infer_backward_weights(InferShape infer) {
  return [infer = std::move(infer)](const Params& p, std::vector<base::Shape>& in,
                                    std::vector<base::Shape>& out) -> base::Status {
    std::vector<base::Shape> inputs = {in[1], out[0]};
    if (out.size() > 1) inputs.push_back(out[1]);
    std::vector<base::Shape> outputs = {in[0]};
    TROUPE_TRY(infer(p, inputs, outputs));
    in = {outputs[0], inputs[0]};
    std::copy(inputs.begin() + 1, inputs.end(), out.begin());
    return {};
  };
}

/// Inference of an operator whose last input may be an addend, by that of the one without.
inline InferShape infer_with_addend(InferShape infer) {
  return [infer = std::move(infer)](const Params& p, std::vector<base::Shape>& in,
                                    std::vector<base::Shape>& out) -> base::Status {
    if (!read_epilogue(p).sum) return infer(p, in, out);
    std::vector<base::Shape> others(in.begin(), in.end() - 1);
    TROUPE_TRY(infer(p, others, out));
    std::copy(others.begin(), others.end(), in.begin());
    return agree_with_addend(in.back(), out[0]);
  };
}

/// The gradient of the forward operator `name`.
inline GradientFunction linear_gradient(std::string name, bool epilogue) {
  return [name = std::move(name),
          epilogue](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    std::vector<std::optional<Value>> result(static_cast<std::size_t>(b.input_count()));
    Value head = *b.output_gradient(0);
    Attributes attributes = b.params().to_attributes();
    if (epilogue) {
      head = before_epilogue(b);
      if (read_epilogue(b.params()).sum) result.back() = head;
      for (const ParamDef& param : epilogue_params()) attributes.erase(param.name);
    }
    if (b.wanted(0)) {
      result[0] = b.add1(name + "_backward_data", {head, b.input(1), b.input(0)}, attributes);
    }
    if (b.wanted(1) || (has_bias(b.params()) && b.wanted(2))) {
      const auto values = b.add(name + "_backward_weights", {head, b.input(0)}, attributes);
      std::copy(values.begin(), values.end(), result.begin() + 1);
    }
    return result;
  };
}

/// A definition with everything but aliases, doc, kernels and samples.
inline OpDef linear_definition(const LinearOperator& linear) {
  OpDef op;
  op.name = linear.name;
  op.mixed = MixedPrecision::narrow;
  op.params = linear.params;
  op.inputs = [epilogue = linear.epilogue](const Params& p) {
    const bool sum = epilogue && read_epilogue(p).sum;
    return with_optional(with_optional({"data", "weight"}, "bias", has_bias(p)), "addend", sum);
  };
  op.outputs = names({"output"});
  op.infer_shape = linear.infer;
  op.gradient = linear_gradient(linear.name, linear.epilogue);
  op.epilogue = linear.epilogue;
  if (linear.epilogue) {
    for (const ParamDef& param : epilogue_params()) op.params.push_back(param);
    op.infer_shape = infer_with_addend(linear.infer);
    op.in_place = {{2, 0}, {3, 0}};  // the addend, without and with a bias
  }
  op.accumulates = {0};
  op.keeps_samples = samples_in_data;
  op.flops = linear.flops;
  op.multiplies_and_adds = true;
  return op;
}

/// Likewise of the gradient with respect to data; only the shape of data is used.
inline OpDef linear_backward_data_definition(const LinearOperator& linear) {
  OpDef op;
  op.name = linear.name + "_backward_data";
  op.params = linear.params;
  op.inputs = names({"output_gradient", "weight", "data"});
  op.outputs = names({"data_gradient"});
  op.shape_only_inputs = {2};
  op.infer_shape = infer_backward_data(linear.infer);
  op.accumulates = {0};
  op.flops = linear.flops;
  op.multiplies_and_adds = true;
  return op;
}

/// Likewise of the gradients with respect to weight and bias.
inline OpDef linear_backward_weights_definition(const LinearOperator& linear) {
  OpDef op;
  op.name = linear.name + "_backward_weights";
  op.params = linear.params;
  op.inputs = names({"output_gradient", "data"});
  op.outputs = [](const Params& p) {
    return with_optional({"weight_gradient"}, "bias_gradient", has_bias(p));
  };
  op.infer_shape = infer_backward_weights(linear.infer);
  op.accumulates = {0, 1};
  op.flops = linear.flops;
  op.multiplies_and_adds = true;
  return op;
}

}  // namespace troupe::ops
