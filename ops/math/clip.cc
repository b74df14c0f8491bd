// SPDX-License-Identifier: Apache-2.0
// clip: values limited to an interval.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

std::vector<ParamDef> clip_params() {
  return {{"a_min", ParamType::real, std::nullopt, "Lowest value of the output."},
          {"a_max", ParamType::real, std::nullopt, "Highest value of the output."}};
}

/// OpDef::pointwise with the limits as "#0" and "#1".
std::function<std::optional<PointwiseTerm>(const Params&)> limited_term(std::string text) {
  return [text = std::move(text)](const Params& params) {
    return PointwiseTerm{text, {params.real("a_min"), params.real("a_max")}};
  };
}

OpDef clip_definition() {
  OpDef op = unary_definition();
  op.name = "clip";
  op.doc = "`out = min(max(data, a_min), a_max)`; NaN stays NaN.";
  op.params = clip_params();
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("clip_backward", {dy, b.input(0)}, b.params().to_attributes());
  });
  op.pointwise = limited_term("Limited<W>{#0, #1}($0)");
  op.kernels = {pointwise_kernel<1>([](const Params& params, auto zero) {
    using T = decltype(zero);
    const T low = static_cast<T>(params.real("a_min"));
    const T high = static_cast<T>(params.real("a_max"));
    return [=](T x) {
      const T above = x < low ? low : x;  // as documented also where low is above high
      return above > high ? high : above;
    };
  })};
  op.samples = {{.title = "matrix",
                 .attributes = {{"a_min", "-0.5"}, {"a_max", "0.25"}},
                 .inputs = {{4, 7}}}};
  return op;
}

OpDef clip_backward_definition() {
  OpDef op;
  op.name = "clip_backward";
  op.doc = "Gradient of clip: the output's gradient where `a_min <= data <= a_max`, else 0.";
  op.params = clip_params();
  op.inputs = names({"out_gradient", "data"});
  op.outputs = names({"data_gradient"});
  op.in_place = {{0, 0}, {1, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.pointwise = limited_term("LimitedGradient<W>{#0, #1}($0, $1)");
  op.kernels = {pointwise_kernel<2>([](const Params& params, auto zero) {
    using T = decltype(zero);
    const T low = static_cast<T>(params.real("a_min"));
    const T high = static_cast<T>(params.real("a_max"));
    return [=](T dy, T x) { return x >= low && x <= high ? dy : T{0}; };
  })};
  op.samples = {{.title = "matrix",
                 .attributes = {{"a_min", "-0.5"}, {"a_max", "0.25"}},
                 .inputs = {{4, 7}, {4, 7}}}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_clip() {
  static const std::vector<OpDef> operators = {clip_definition(), clip_backward_definition()};
  return operators;
}

}  // namespace troupe::ops
