// SPDX-License-Identifier: Apache-2.0
// copy: the same values in other memory, and stop_gradient, a copy that cuts the gradient. Of any
// dtype.
#include "ops/support/arithmetic.h"
#include "ops/support/copy_kernel.h"

namespace troupe::ops {
namespace {

OpDef copy_like(std::string name) {
  OpDef op = unary_definition();
  op.name = std::move(name);
  op.infer_dtype = infer_copied_dtype;
  op.maps_zero_to_zero = always;
  op.pointwise = pointwise_term("$0");
  op.kernels = {copy_kernel()};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}}}};
  return op;
}

OpDef copy_definition() {
  OpDef op = copy_like("copy");
  op.aliases = {"_copy", "identity"};
  op.doc = "`out = data`.";
  op.gradient = unary_gradient([](GradientBuilder&, Value dy) { return dy; });
  return op;
}

OpDef stop_gradient_definition() {
  OpDef op = copy_like("stop_gradient");
  op.aliases = {"BlockGrad"};
  op.doc = "`out = data`; no gradient passes.";
  op.cuts_gradient = true;
  op.samples.front().gradient = false;
  return op;
}

}  // namespace

std::span<const OpDef> ops_copy() {
  static const std::vector<OpDef> operators = {copy_definition(), stop_gradient_definition()};
  return operators;
}

}  // namespace troupe::ops
