// SPDX-License-Identifier: Apache-2.0
// Shared halves of arithmetic operators' definitions.
#include "ops/support/arithmetic.h"

#include <fmt/core.h>

namespace troupe::ops {

OpDef broadcast_definition() {
  OpDef op;
  op.inputs = names({"lhs", "rhs"});
  op.outputs = names({"out"});
  op.infer_shape = infer_broadcast;
  op.in_place = {{0, 0}, {1, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.mixed = MixedPrecision::as_inputs;
  return op;
}

OpDef unary_definition() {
  OpDef op;
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.mixed = MixedPrecision::as_inputs;
  return op;
}

OpDef scalar_definition() {
  OpDef op = unary_definition();
  op.params = {{"scalar", ParamType::real, 1.0, "The other operand."}};
  op.ignored = {{"is_int"}};
  return op;
}

OpDef elemwise_form(const OpDef& broadcasting, std::vector<std::string> aliases,
                    const PartialDerivative& lhs, const PartialDerivative& rhs) {
  OpDef op = broadcasting;
  op.name += "_elemwise";
  op.aliases = std::move(aliases);
  op.doc = fmt::format(
      "[{0}](#{0}) of two tensors of one shape; where one of them is not known, it is the other's.",
      broadcasting.name);
  op.infer_shape = {};
  op.gradient = [lhs, rhs](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    std::vector<std::optional<Value>> gradients(2);
    if (b.wanted(0)) gradients[0] = lhs(b, *b.output_gradient(0));
    if (b.wanted(1)) gradients[1] = rhs(b, *b.output_gradient(0));
    return gradients;
  };
  std::erase_if(op.samples,
                [](const Sample& sample) { return sample.inputs[0] != sample.inputs[1]; });
  return op;
}

std::vector<Sample> broadcast_samples(double low, double high) {
  const auto sample = [&](const char* title, base::Shape lhs, base::Shape rhs) {
    return Sample{.title = title, .inputs = {lhs, rhs}, .low = low, .high = high};
  };
  std::vector<Sample> samples = {sample("equal shapes", {3, 5}, {3, 5}),
                                 sample("row", {3, 5}, {5}),
                                 sample("column", {3, 5}, {3, 1}),
                                 sample("0-d", {3, 5}, {}),
                                 sample("both repeat", {2, 1, 4}, {3, 1}),
                                 sample("left repeats", {1, 4}, {2, 3, 4}),
                                 sample("channel", {2, 3, 2, 2}, {1, 3, 1, 1})};
  for (const base::Shape& rhs : {base::Shape{256, 1024}, base::Shape{256, 1}}) {
    samples.push_back(sample("large", {256, 1024}, rhs));
    samples.back().gradient = false;
    samples.back().benchmark = true;
  }
  return samples;
}

std::vector<Sample> unary_samples(double low, double high) {
  return {{.title = "matrix", .inputs = {{3, 5}}, .low = low, .high = high},
          {.title = "16 channels", .inputs = {{2, 16, 3, 3}}, .low = low, .high = high},
          {.title = "large",
           .inputs = {{256, 1024}},
           .low = low,
           .high = high,
           .gradient = false,
           .benchmark = true}};
}

std::vector<Sample> scalar_samples(const std::string& scalar, double low, double high) {
  return {{.title = "matrix",
           .attributes = {{"scalar", scalar}},
           .inputs = {{3, 5}},
           .low = low,
           .high = high},
          {.title = "16 channels",
           .attributes = {{"scalar", scalar}},
           .inputs = {{2, 16, 3, 3}},
           .low = low,
           .high = high},
          {.title = "0-d",
           .attributes = {{"scalar", scalar}},
           .inputs = {base::Shape{}},
           .low = low,
           .high = high}};
}

std::function<std::optional<PointwiseTerm>(const Params&)> scalar_term(std::string text) {
  return [text = std::move(text)](const Params& params) {
    return PointwiseTerm{text, {params.real("scalar")}};
  };
}

std::string scalar_text(const GradientBuilder& builder) {
  return to_attribute(builder.params().real("scalar"));
}

GradientFunction broadcast_gradient(PartialDerivative lhs, PartialDerivative rhs) {
  return [lhs = std::move(lhs), rhs = std::move(rhs)](
             GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    std::vector<std::optional<Value>> gradients(2);
    for (int i = 0; i < 2; ++i) {
      if (!b.wanted(i)) continue;
      const Value full = (i == 0 ? lhs : rhs)(b, *b.output_gradient(0));
      gradients[static_cast<std::size_t>(i)] = b.add1("reduce_to_like", {full, b.input(i)});
    }
    return gradients;
  };
}

GradientFunction unary_gradient(PartialDerivative data) {
  return [data = std::move(data)](
             GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    return std::vector<std::optional<Value>>{data(b, *b.output_gradient(0))};
  };
}

}  // namespace troupe::ops
