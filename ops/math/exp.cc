// SPDX-License-Identifier: Apache-2.0
// exp: y = e^x.
#include <cmath>

#include "ops/support/pointwise.h"

namespace troupe::ops {
namespace {

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  return {{b.add1("multiply", {*b.output_gradient(0), b.output(0)})}};
}

OpDef exp_definition() {
  OpDef op;
  op.name = "exp";
  op.doc = "`out = e^data`, element by element.";
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.gradient = gradient;
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return std::exp(x); })};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}}},
                {.title = "large", .inputs = {{256, 1024}}, .gradient = false, .benchmark = true}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_exp() {
  static const std::vector<OpDef> operators = {exp_definition()};
  return operators;
}

}  // namespace troupe::ops
