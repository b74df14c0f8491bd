// SPDX-License-Identifier: Apache-2.0
// square: y = x^2.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef square_definition() {
  OpDef op;
  op.name = "square";
  op.doc = "`out = data^2`.";
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("multiply_scalar", {b.add1("multiply", {dy, b.input(0)})}, {{"scalar", "2"}});
  });
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = true;
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return x * x; })};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}}},
                {.title = "large", .inputs = {{256, 1024}}, .gradient = false, .benchmark = true}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_square() {
  static const std::vector<OpDef> operators = {square_definition()};
  return operators;
}

}  // namespace troupe::ops
