// SPDX-License-Identifier: Apache-2.0
// log: the natural logarithm.
#include <cmath>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef log_definition() {
  OpDef op = unary_definition();
  op.mixed = MixedPrecision::wide;
  op.name = "log";
  op.doc = "`out = ln(data)`; NaN below zero.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("divide", {dy, b.input(0)});
  });
  op.pointwise = pointwise_term("Log()($0)");
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return std::log(x); })};
  op.samples = unary_samples(0.5, 2.0);
  return op;
}

}  // namespace

std::span<const OpDef> ops_log() {
  static const std::vector<OpDef> operators = {log_definition()};
  return operators;
}

}  // namespace troupe::ops
