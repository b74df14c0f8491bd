// SPDX-License-Identifier: Apache-2.0
// subtract: lhs - rhs with broadcasting, and the forms with a number on either side.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

Value passed(GradientBuilder&, Value dy) {
  return dy;
}
Value negated(GradientBuilder& b, Value dy) {
  return b.add1("negate", {dy});
}

OpDef subtract_definition() {
  OpDef op = broadcast_definition();
  op.name = "subtract";
  op.aliases = {"broadcast_sub", "broadcast_minus"};
  op.doc = "`out = lhs - rhs`, broadcast as in NumPy.";
  op.gradient = broadcast_gradient(passed, negated);
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Difference()($0, $1)");
  op.kernels = {broadcast_kernel([](auto a, auto b) { return a - b; })};
  op.samples = broadcast_samples();
  return op;
}

OpDef subtract_scalar_definition() {
  OpDef op = scalar_definition();
  op.name = "subtract_scalar";
  op.aliases = {"_minus_scalar", "_MinusScalar"};
  op.doc = "`out = data - scalar`.";
  op.gradient = unary_gradient(passed);
  op.pointwise = scalar_term("Difference()($0, #0)");
  op.kernels = {scalar_kernel([](auto x, auto s) { return x - s; })};
  op.samples = scalar_samples("0.75");
  return op;
}

OpDef reverse_subtract_scalar_definition() {
  OpDef op = scalar_definition();
  op.name = "reverse_subtract_scalar";
  op.aliases = {"_rminus_scalar", "_RMinusScalar"};
  op.doc = "`out = scalar - data`.";
  op.gradient = unary_gradient(negated);
  op.pointwise = scalar_term("ReverseDifference()($0, #0)");
  op.kernels = {scalar_kernel([](auto x, auto s) { return s - x; })};
  op.samples = scalar_samples("0.75");
  return op;
}

}  // namespace

std::span<const OpDef> ops_subtract() {
  static const std::vector<OpDef> operators = {
      subtract_definition(),
      elemwise_form(subtract_definition(), {"elemwise_sub", "_sub", "_minus", "_Minus"}, passed,
                    negated),
      subtract_scalar_definition(), reverse_subtract_scalar_definition()};
  return operators;
}

}  // namespace troupe::ops
