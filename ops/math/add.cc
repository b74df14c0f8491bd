// SPDX-License-Identifier: Apache-2.0
// add: lhs + rhs with broadcasting, and the form with a number.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

Value passed(GradientBuilder&, Value dy) {
  return dy;
}

OpDef add_definition() {
  OpDef op = broadcast_definition();
  op.name = "add";
  op.aliases = {"broadcast_add", "broadcast_plus"};
  op.doc = "`out = lhs + rhs`, broadcast as in NumPy.";
  op.gradient = broadcast_gradient(passed, passed);
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Sum()($0, $1)");
  op.kernels = {broadcast_kernel([](auto a, auto b) { return a + b; })};
  op.samples = broadcast_samples();
  return op;
}

OpDef add_scalar_definition() {
  OpDef op = scalar_definition();
  op.name = "add_scalar";
  op.aliases = {"_plus_scalar", "_PlusScalar"};
  op.doc = "`out = data + scalar`.";
  op.gradient = unary_gradient(passed);
  op.pointwise = scalar_term("Sum()($0, #0)");
  op.kernels = {scalar_kernel([](auto x, auto s) { return x + s; })};
  op.samples = scalar_samples("0.75");
  return op;
}

}  // namespace

std::span<const OpDef> ops_add() {
  static const std::vector<OpDef> operators = {
      add_definition(),
      elemwise_form(add_definition(), {"elemwise_add", "_add", "_plus", "_Plus"}, passed, passed),
      add_scalar_definition()};
  return operators;
}

}  // namespace troupe::ops
