// SPDX-License-Identifier: Apache-2.0
// square: y = x^2.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef square_definition() {
  OpDef op = unary_definition();
  op.mixed = MixedPrecision::wide;
  op.name = "square";
  op.doc = "`out = data^2`.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("multiply_scalar", {b.add1("multiply", {dy, b.input(0)})}, {{"scalar", "2"}});
  });
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Square()($0)");
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return x * x; })};
  op.samples = unary_samples();
  return op;
}

}  // namespace

std::span<const OpDef> ops_square() {
  static const std::vector<OpDef> operators = {square_definition()};
  return operators;
}

}  // namespace troupe::ops
