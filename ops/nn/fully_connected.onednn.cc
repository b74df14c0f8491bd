// SPDX-License-Identifier: Apache-2.0
// fully_connected and its gradient by oneDNN's inner products over dense (rows, inner) matrices.
// Weights stay dense too: reordering them once per step costs more than blocks gain (LeNet's 800 x
// 500 at batch 32: 140 us there and 550 us back for products of 150-210 us).
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using dnnl::memory;
using onednn::Plan;

/// The call's matrices.
struct Problem {
  memory::desc data, weight, bias, result;
  bool biased = false;

  dnnl::inner_product_forward::primitive_desc forward() const {
    using Forward = dnnl::inner_product_forward;
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    const Forward::desc desc = biased ? Forward::desc(kKind, data, weight, bias, result)
                                      : Forward::desc(kKind, data, weight, result);
    return {desc, onednn::attributes(), onednn::cpu(), true};
  }
};

Problem describe_call(const Params& p, const TensorDesc& data, const TensorDesc& weight) {
  const base::Shape& shape = data.shape;
  const int split = p.boolean("flatten") ? 1 : shape.rank() - 1;
  const std::int64_t rows = shape.elements(0, split);
  const std::int64_t hidden = p.integer("num_hidden");
  const base::Layout dense;
  Problem problem;
  problem.data =
      onednn::describe(data.dtype, base::Shape{rows, shape.elements(split, shape.rank())}, dense);
  problem.weight = onednn::describe(weight.dtype, weight.shape, dense);
  problem.bias = onednn::describe(data.dtype, base::Shape{hidden}, dense);
  problem.result = onednn::describe(data.dtype, base::Shape{rows, hidden}, dense);
  problem.biased = !p.boolean("no_bias");
  return problem;
}

base::Result<Plan> forward(const OpCall& call) {
  const Problem p = describe_call(call.params, call.inputs[0], call.inputs[1]);
  Plan plan{p.forward(),
            {onednn::input(DNNL_ARG_SRC, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
             onednn::output(DNNL_ARG_DST, 0)}};
  if (p.biased) plan.arguments.push_back(onednn::input(DNNL_ARG_BIAS, 2));
  return plan;
}

base::Result<Plan> backward_data(const OpCall& call) {
  Problem p = describe_call(call.params, call.inputs[2], call.inputs[1]);
  p.biased = false;
  using Backward = dnnl::inner_product_backward_data;
  const Backward::desc desc(p.data, p.weight, p.result);
  const auto hint = p.forward();
  if (!hint) return Plan{};
  return Plan{Backward::primitive_desc(desc, onednn::attributes(), onednn::cpu(), hint, true),
              {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
               onednn::output(DNNL_ARG_DIFF_SRC, 0)}};
}

base::Result<Plan> backward_weights(const OpCall& call) {
  const Problem p = describe_call(call.params, call.inputs[1], call.outputs[0]);
  using Backward = dnnl::inner_product_backward_weights;
  const Backward::desc desc = p.biased ? Backward::desc(p.data, p.weight, p.bias, p.result)
                                       : Backward::desc(p.data, p.weight, p.result);
  const auto hint = p.forward();
  if (!hint) return Plan{};
  Plan plan{Backward::primitive_desc(desc, onednn::attributes(), onednn::cpu(), hint, true),
            {onednn::input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_SRC, 1),
             onednn::output(DNNL_ARG_DIFF_WEIGHTS, 0)}};
  if (p.biased) plan.arguments.push_back(onednn::output(DNNL_ARG_DIFF_BIAS, 1));
  return plan;
}

}  // namespace

std::span<const BackendKernel> kernels_fully_connected_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("fully_connected", forward),
      onednn::backend_kernel("fully_connected_backward_data", backward_data),
      onednn::backend_kernel("fully_connected_backward_weights", backward_weights),
  };
  return kernels;
}

}  // namespace troupe::ops
