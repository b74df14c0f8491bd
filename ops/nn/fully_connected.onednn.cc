// SPDX-License-Identifier: Apache-2.0
// fully_connected and its gradient of bf16 by oneDNN's inner product, where the processor has
// instructions for it. Those of f32 are ours (decision 0009).
#include "ops/nn/fully_connected.h"

#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using dnnl::memory;
using onednn::Argument;
using onednn::Plan;

/// A call of any of the three operators in the library's terms, all of bf16.
struct Problem {
  memory::desc data, weight, bias, result;

  /// Without a bias where `bias` is zero.
  dnnl::inner_product_forward::primitive_desc forward() const {
    using Forward = dnnl::inner_product_forward;
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    return onednn::describe_primitive<Forward>(onednn::attributes(), kKind, data, weight, bias,
                                               result);
  }
};

Problem describe_call(const OpCall& call, const base::Shape& data, const TensorDesc& weight,
                      bool biased) {
  const FullyConnected e = read_fully_connected(call.params, data);
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return memory::desc({rows, columns}, onednn::library_type(weight.dtype),
                        memory::format_tag::ab);
  };
  Problem problem{matrix(e.rows, e.inner), onednn::describe(weight), {}, matrix(e.rows, e.hidden)};
  if (biased) {
    problem.bias = onednn::describe(weight.dtype, base::Shape{e.hidden}, base::Layout::dense());
  }
  return problem;
}

/// A tensor that the library sees as a matrix.
Argument matrix(int arg, bool is_output, int index) {
  return {.arg = arg, .output = is_output, .index = index, .dense_view = true};
}

base::Result<Plan> forward(const OpCall& call) {
  const bool biased = call.inputs.size() > 2;
  const Problem p = describe_call(call, call.inputs[0].shape, call.inputs[1], biased);
  Plan plan{p.forward(),
            {matrix(DNNL_ARG_SRC, false, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
             matrix(DNNL_ARG_DST, true, 0)}};
  if (biased) plan.arguments.push_back(onednn::input(DNNL_ARG_BIAS, 2));
  return onednn::without_gemm(std::move(plan));
}

base::Result<Plan> backward_data(const OpCall& call) {
  const Problem p = describe_call(call, call.inputs[2].shape, call.inputs[1], false);
  const auto hint = p.forward();
  if (!hint) return Plan{};
  return onednn::without_gemm(
      {onednn::describe_gradient<dnnl::inner_product_backward_data>(hint, p.data, p.weight,
                                                                    p.result),
       {matrix(DNNL_ARG_DIFF_DST, false, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
        matrix(DNNL_ARG_DIFF_SRC, true, 0)}});
}

base::Result<Plan> backward_weights(const OpCall& call) {
  const bool biased = call.outputs.size() > 1;
  TensorDesc weight = call.outputs[0];
  weight.dtype = call.inputs[1].dtype;
  Problem p = describe_call(call, call.inputs[1].shape, weight, biased);
  const auto hint = p.forward();
  if (!hint) return Plan{};
  // The gradients may be f32 (wide_gradients).
  p.weight = onednn::describe(call.outputs[0]);
  if (biased) p.bias = onednn::describe(call.outputs[1]);
  Plan plan{onednn::describe_gradient<dnnl::inner_product_backward_weights>(hint, p.data, p.weight,
                                                                            p.bias, p.result),
            {matrix(DNNL_ARG_DIFF_DST, false, 0), matrix(DNNL_ARG_SRC, false, 1),
             onednn::output(DNNL_ARG_DIFF_WEIGHTS, 0)}};
  if (biased) plan.arguments.push_back(onednn::output(DNNL_ARG_DIFF_BIAS, 1));
  return onednn::without_gemm(std::move(plan));
}

}  // namespace

std::span<const BackendKernel> kernels_fully_connected_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::product_kernel_of_bf16("fully_connected", forward),
      onednn::product_kernel_of_bf16("fully_connected_backward_data", backward_data),
      onednn::product_kernel_of_bf16("fully_connected_backward_weights", backward_weights),
  };
  return kernels;
}

}  // namespace troupe::ops
