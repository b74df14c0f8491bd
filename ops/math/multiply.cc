// SPDX-License-Identifier: Apache-2.0
// multiply: lhs * rhs with broadcasting, and the form with a number.
#include <cmath>
#include <limits>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

Value times_rhs(GradientBuilder& b, Value dy) {
  return b.add1("multiply", {dy, b.input(1)});
}
Value times_lhs(GradientBuilder& b, Value dy) {
  return b.add1("multiply", {dy, b.input(0)});
}

OpDef multiply_definition() {
  OpDef op = broadcast_definition();
  op.name = "multiply";
  op.aliases = {"broadcast_mul"};
  op.doc = "`out = lhs * rhs`, broadcast as in NumPy.";
  op.gradient = broadcast_gradient(times_rhs, times_lhs);
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Product()($0, $1)");
  op.kernels = {broadcast_kernel([](auto a, auto b) { return a * b; })};
  op.samples = broadcast_samples();
  return op;
}

/// Zero times infinity is NaN. Both dtypes are asked at once: what is too large for f32 counts as
/// infinite in f64, too.
bool finite_scalar(const Params& params) {
  return std::abs(params.real("scalar")) <= std::numeric_limits<float>::max();
}

OpDef multiply_scalar_definition() {
  OpDef op = scalar_definition();
  op.name = "multiply_scalar";
  op.aliases = {"_mul_scalar", "_MulScalar"};
  op.doc = "`out = data * scalar`.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("multiply_scalar", {dy}, {{"scalar", scalar_text(b)}});
  });
  op.maps_zero_to_zero = finite_scalar;
  op.pointwise = scalar_term("Product()($0, #0)");
  op.kernels = {scalar_kernel([](auto x, auto s) { return x * s; })};
  op.samples = scalar_samples("0.75");
  return op;
}

}  // namespace

std::span<const OpDef> ops_multiply() {
  static const std::vector<OpDef> operators = {
      multiply_definition(),
      elemwise_form(multiply_definition(), {"elemwise_mul", "_mul", "_Mul"}, times_rhs, times_lhs),
      multiply_scalar_definition()};
  return operators;
}

}  // namespace troupe::ops
