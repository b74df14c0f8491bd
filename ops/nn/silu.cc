// SPDX-License-Identifier: Apache-2.0
// silu, also known as swish: x * sigmoid(x), and its gradient.
#include <cmath>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

std::vector<Sample> samples(std::size_t inputs, bool differentiable) {
  const auto all = [inputs](const base::Shape& shape) { return std::vector(inputs, shape); };
  return {
      {.title = "matrix", .inputs = all({3, 5}), .low = -8, .high = 8, .gradient = differentiable},
      {.title = "batch 32",
       .inputs = all({32, 20, 24, 24}),
       .low = -8,
       .high = 8,
       .gradient = false,
       .benchmark = true}};
}

OpDef silu_definition() {
  OpDef op = unary_definition();
  op.name = "silu";
  op.doc = "`out = data / (1 + e^-data)`; NaN at negative infinity, as in PyTorch.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("silu_backward", {dy, b.input(0)});
  });
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Silu()($0)");
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return x / (1 + std::exp(-x)); })};
  op.samples = samples(1, true);
  return op;
}

OpDef silu_backward_definition() {
  OpDef op;
  op.name = "silu_backward";
  op.doc = "Gradient of silu: `out_gradient * s * (1 + data * (1 - s))`, s the sigmoid of data.";
  op.inputs = names({"out_gradient", "data"});
  op.outputs = names({"data_gradient"});
  op.in_place = {{0, 0}, {1, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Silu()($0, $1)");
  op.kernels = {plain_pointwise_kernel<2>([](auto dy, auto x) {
    const auto s = 1 / (1 + std::exp(-x));
    return dy * (s * (1 + x * (1 - s)));
  })};
  op.samples = samples(2, false);
  return op;
}

}  // namespace

std::span<const OpDef> ops_silu() {
  static const std::vector<OpDef> operators = {silu_definition(), silu_backward_definition()};
  return operators;
}

}  // namespace troupe::ops
