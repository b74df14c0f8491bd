// SPDX-License-Identifier: Apache-2.0
// log: the natural logarithm.
#include <cmath>

#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef log_definition() {
  OpDef op;
  op.name = "log";
  op.doc = "`out = ln(data)`; NaN below zero.";
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) {
    return b.add1("divide", {dy, b.input(0)});
  });
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return std::log(x); })};
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

std::span<const OpDef> ops_log() {
  static const std::vector<OpDef> operators = {log_definition()};
  return operators;
}

}  // namespace troupe::ops
