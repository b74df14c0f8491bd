// SPDX-License-Identifier: Apache-2.0
// sqrt: the square root.
#include <cmath>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef sqrt_definition() {
  OpDef op;
  op.name = "sqrt";
  op.doc = "`out = sqrt(data)`; NaN below zero.";
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("multiply_scalar", {b.add1("divide", {dy, b.output(0)})}, {{"scalar", "0.5"}});
  });
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = true;
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return std::sqrt(x); })};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}}, .low = 0.5, .high = 2.0},
                {.title = "large",
                 .inputs = {{256, 1024}},
                 .low = 0.5,
                 .high = 2.0,
                 .gradient = false,
                 .benchmark = true}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_sqrt() {
  static const std::vector<OpDef> operators = {sqrt_definition()};
  return operators;
}

}  // namespace troupe::ops
