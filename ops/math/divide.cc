// SPDX-License-Identifier: Apache-2.0
// divide: lhs / rhs with broadcasting, and the forms with a number on either side.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

Value over_rhs(GradientBuilder& b, Value dy) {
  return b.add1("divide", {dy, b.input(1)});
}
Value by_rhs(GradientBuilder& b, Value dy) {
  const Value scaled = b.add1("multiply", {dy, b.output(0)});
  return b.add1("negate", {b.add1("divide", {scaled, b.input(1)})});
}

OpDef divide_definition() {
  OpDef op = broadcast_definition();
  op.mixed = MixedPrecision::wide;
  op.name = "divide";
  op.aliases = {"broadcast_div"};
  op.doc = "`out = lhs / rhs`, broadcast as in NumPy; IEEE 754 division by zero.";
  op.gradient = broadcast_gradient(over_rhs, by_rhs);
  op.pointwise = pointwise_term("Quotient()($0, $1)");
  op.kernels = {broadcast_kernel([](auto a, auto b) { return a / b; })};
  op.samples = broadcast_samples(0.5, 2.0);
  return op;
}

OpDef divide_scalar_definition() {
  OpDef op = scalar_definition();
  op.mixed = MixedPrecision::wide;
  op.name = "divide_scalar";
  op.aliases = {"_div_scalar", "_DivScalar"};
  op.doc = "`out = data / scalar`.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("divide_scalar", {dy}, {{"scalar", scalar_text(b)}});
  });
  op.pointwise = scalar_term("Quotient()($0, #0)");
  op.kernels = {scalar_kernel([](auto x, auto s) { return x / s; })};
  op.samples = scalar_samples("0.75");
  return op;
}

OpDef reverse_divide_scalar_definition() {
  OpDef op = scalar_definition();
  op.mixed = MixedPrecision::wide;
  op.name = "reverse_divide_scalar";
  op.aliases = {"_rdiv_scalar", "_RDivScalar"};
  op.doc = "`out = scalar / data`.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    const Value scaled = b.add1("multiply", {dy, b.output(0)});
    return b.add1("negate", {b.add1("divide", {scaled, b.input(0)})});
  });
  op.pointwise = scalar_term("ReverseQuotient()($0, #0)");
  op.kernels = {scalar_kernel([](auto x, auto s) { return s / x; })};
  op.samples = scalar_samples("0.75", 0.5, 2.0);
  return op;
}

}  // namespace

std::span<const OpDef> ops_divide() {
  static const std::vector<OpDef> operators = {
      divide_definition(),
      elemwise_form(divide_definition(), {"elemwise_div", "_div", "_Div"}, over_rhs, by_rhs),
      divide_scalar_definition(), reverse_divide_scalar_definition()};
  return operators;
}

}  // namespace troupe::ops
