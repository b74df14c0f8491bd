// SPDX-License-Identifier: Apache-2.0
// sqrt: the square root.
#include <cmath>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef sqrt_definition() {
  OpDef op = unary_definition();
  op.mixed = MixedPrecision::wide;
  op.name = "sqrt";
  op.doc = "`out = sqrt(data)`; NaN below zero.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("multiply_scalar", {b.add1("divide", {dy, b.output(0)})}, {{"scalar", "0.5"}});
  });
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Sqrt()($0)");
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return std::sqrt(x); })};
  op.samples = unary_samples(0.5, 2.0);
  return op;
}

}  // namespace

std::span<const OpDef> ops_sqrt() {
  static const std::vector<OpDef> operators = {sqrt_definition()};
  return operators;
}

}  // namespace troupe::ops
