// SPDX-License-Identifier: Apache-2.0
// exp: y = e^x.
#include <cmath>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef exp_definition() {
  OpDef op;
  op.name = "exp";
  op.doc = "`out = e^data`.";
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("multiply", {dy, b.output(0)});
  });
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
