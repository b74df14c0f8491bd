// SPDX-License-Identifier: Apache-2.0
// mean over axes, and its gradient.
#include "ops/support/reduce.h"
#include "ops/support/reduce_backward.h"

namespace troupe::ops {
namespace {

OpDef mean_definition() {
  OpDef op = reduce_definition("mean_backward");
  op.name = "mean";
  op.doc =
      "Mean over `axis`: the sum, taken in f64 (on GPUs: of f32 and 16 bits in f32), divided by "
      "the count; NaN of nothing.";
  op.kernels = {reduce_kernel<SumReducer>(walk_of_axes, finish_mean)};
  return op;
}

OpDef mean_backward_definition() {
  OpDef op = reduce_backward_definition();
  op.name = "mean_backward";
  op.doc = "Gradient of mean: the output's gradient over the count, repeated along reduced axes.";
  op.kernels = {repeat_kernel([](double count) { return count; })};
  return op;
}

}  // namespace

std::span<const OpDef> ops_mean() {
  static const std::vector<OpDef> operators = {mean_definition(), mean_backward_definition()};
  return operators;
}

}  // namespace troupe::ops
