// SPDX-License-Identifier: Apache-2.0
// negate: y = -x.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef negate_definition() {
  OpDef op;
  op.name = "negate";
  op.aliases = {"negative"};
  op.doc = "`out = -data`.";
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) { return b.add1("negate", {dy}); });
  op.in_place = {{0, 0}};
  op.accumulates = {0};
  op.elementwise = true;
  op.maps_zero_to_zero = true;
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return -x; })};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}}},
                {.title = "large", .inputs = {{256, 1024}}, .gradient = false, .benchmark = true}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_negate() {
  static const std::vector<OpDef> operators = {negate_definition()};
  return operators;
}

}  // namespace troupe::ops
