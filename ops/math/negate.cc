// SPDX-License-Identifier: Apache-2.0
// negate: y = -x.
#include "ops/support/arithmetic.h"

namespace troupe::ops {
namespace {

OpDef negate_definition() {
  OpDef op = unary_definition();
  op.name = "negate";
  op.aliases = {"negative"};
  op.doc = "`out = -data`.";
  op.gradient = unary_gradient([](GradientBuilder& b, Value dy) { return b.add1("negate", {dy}); });
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("Negate()($0)");
  op.kernels = {plain_pointwise_kernel<1>([](auto x) { return -x; })};
  op.samples = unary_samples();
  return op;
}

}  // namespace

std::span<const OpDef> ops_negate() {
  static const std::vector<OpDef> operators = {negate_definition()};
  return operators;
}

}  // namespace troupe::ops
