// SPDX-License-Identifier: Apache-2.0
// sum over axes, and its gradient.
#include "ops/support/reduce.h"
#include "ops/support/reduce_backward.h"

namespace troupe::ops {
namespace {

OpDef sum_definition() {
  OpDef op = reduce_definition("sum_backward");
  op.name = "sum";
  op.aliases = {"sum_axis"};
  op.doc =
      "Sum over `axis`, taken in f64 (on GPUs: of f32 and 16 bits in f32) in blocks that follow "
      "from the shape alone.";
  op.kernels = {reduce_kernel<SumReducer>(walk_of_axes, finish_total)};
  return op;
}

OpDef sum_backward_definition() {
  OpDef op = reduce_backward_definition();
  op.name = "sum_backward";
  op.doc = "Gradient of sum: the output's gradient repeated along the reduced axes.";
  op.kernels = {repeat_kernel([](double) { return 1.0; })};
  return op;
}

}  // namespace

std::span<const OpDef> ops_sum() {
  static const std::vector<OpDef> operators = {sum_definition(), sum_backward_definition()};
  return operators;
}

}  // namespace troupe::ops
