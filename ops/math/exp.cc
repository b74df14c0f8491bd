// SPDX-License-Identifier: Apache-2.0
// exp: y = e^x.
#include <cmath>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef exp_definition() {
  OpDef op = unary_definition();
  op.mixed = MixedPrecision::wide;
  op.name = "exp";
  op.doc = "`out = e^data`.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("multiply", {dy, b.output(0)});
  });
  op.pointwise = pointwise_term("Exp()($0)");
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return std::exp(x); })};
  op.samples = unary_samples();
  return op;
}

}  // namespace

std::span<const OpDef> ops_exp() {
  static const std::vector<OpDef> operators = {exp_definition()};
  return operators;
}

}  // namespace troupe::ops
