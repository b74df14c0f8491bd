// SPDX-License-Identifier: Apache-2.0
// fully_connected and its gradient of bf16 by oneDNN, where the processor has instructions for it:
// by a product of matrices where the weights are dense, as its inner product has only its gemm for
// them (decision 0009), and by the inner product where their layout is free. Those of f32 are ours.
#include "ops/nn/fully_connected.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "ops/nn/linear.h"
#include "ops/support/chunks.h"
#include "ops/support/layout_map.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Layout;
using dnnl::memory;
using onednn::matrix;
using onednn::matrix_input;
using onednn::matrix_output;
using onednn::Plan;

bool is_dense(const TensorDesc& tensor) {
  return !tensor.any_layout && tensor.layout.is_dense();
}

// ---- dense weights ----

Plan product(const memory::desc& left, const memory::desc& right, const memory::desc& result,
             std::vector<onednn::Argument> arguments) {
  return {onednn::describe_primitive<dnnl::matmul>(onednn::attributes(), left, right, result),
          std::move(arguments)};
}

Plan dense_forward(const FullyConnected& e, bool biased) {
  const memory::desc data = matrix(DType::bf16, e.rows, e.inner, {e.inner, 1});
  const memory::desc weight = matrix(DType::bf16, e.inner, e.hidden, {1, e.inner});
  const memory::desc result = matrix(DType::bf16, e.rows, e.hidden, {e.hidden, 1});
  std::vector<onednn::Argument> arguments = {matrix_input(DNNL_ARG_SRC, 0),
                                             matrix_input(DNNL_ARG_WEIGHTS, 1),
                                             matrix_output(DNNL_ARG_DST, 0)};
  if (!biased) return product(data, weight, result, std::move(arguments));
  arguments.push_back(matrix_input(DNNL_ARG_BIAS, 2));
  const memory::desc bias = matrix(DType::bf16, 1, e.hidden, {e.hidden, 1});
  return {
      onednn::describe_primitive<dnnl::matmul>(onednn::attributes(), data, weight, bias, result),
      std::move(arguments)};
}

Plan dense_backward_data(const FullyConnected& e) {
  return product(matrix(DType::bf16, e.rows, e.hidden, {e.hidden, 1}),
                 matrix(DType::bf16, e.hidden, e.inner, {e.inner, 1}),
                 matrix(DType::bf16, e.rows, e.inner, {e.inner, 1}),
                 {matrix_input(DNNL_ARG_SRC, 0), matrix_input(DNNL_ARG_WEIGHTS, 1),
                  matrix_output(DNNL_ARG_DST, 0)});
}

/// The gradient of the weight alone, in bf16 or f32.
Plan dense_backward_weight(const FullyConnected& e, DType gradient) {
  return product(matrix(DType::bf16, e.hidden, e.rows, {1, e.hidden}),
                 matrix(DType::bf16, e.rows, e.inner, {e.inner, 1}),
                 matrix(gradient, e.hidden, e.inner, {e.inner, 1}),
                 {matrix_input(DNNL_ARG_SRC, 0), matrix_input(DNNL_ARG_WEIGHTS, 1),
                  matrix_output(DNNL_ARG_DST, 0)});
}

/// Another kernel, and the sums of input 0's columns, in the order of rows, as output 1.
class WithColumnSums final : public Kernel {
 public:
  WithColumnSums(std::unique_ptr<Kernel> inner, const FullyConnected& e, bool adds)
      : inner_(std::move(inner)), extents_(e), adds_(adds) {}

  std::string name() const override { return inner_->name(); }
  std::size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::vector<Layout> input_layouts() const override { return std::vector<Layout>(2); }
  std::vector<Layout> output_layouts() const override { return std::vector<Layout>(2); }

  base::Status run(const KernelContext& context) const override {
    TROUPE_TRY(inner_->run(context));
    if (context.outputs[1].dtype == DType::f32) {
      sum(context, context.outputs[1].as<float>());
    } else {
      sum(context, context.outputs[1].as<base::BF16>());
    }
    return {};
  }

 private:
  template <typename T>
  void sum(const KernelContext& context, T* out) const {
    constexpr std::int64_t kColumns = 256, kRows = 256;  // columns; terms of a sum in f32
    const auto* gradient = context.inputs[0].as<base::BF16>();
    parallel_ranges(
        context, extents_.hidden,
        [&](std::int64_t begin, std::int64_t end) {
          std::array<double, kColumns> totals{};
          for (std::int64_t first = 0; first < extents_.rows; first += kRows) {
            std::array<float, kColumns> sums{};
            const std::int64_t last = std::min(first + kRows, extents_.rows);
            for (std::int64_t row = first; row < last; ++row) {
              const base::BF16* const place = gradient + row * extents_.hidden;
              for (std::int64_t h = begin; h < end; ++h) {
                sums[static_cast<std::size_t>(h - begin)] += static_cast<float>(place[h]);
              }
            }
            for (std::size_t h = 0; h < kColumns; ++h) totals[h] += sums[h];
          }
          for (std::int64_t h = begin; h < end; ++h) {
            const auto total = static_cast<float>(totals[static_cast<std::size_t>(h - begin)]);
            out[h] = T(adds_ ? static_cast<float>(out[h]) + total : total);
          }
        },
        kColumns);
  }

  std::unique_ptr<Kernel> inner_;
  FullyConnected extents_;
  bool adds_;
};

// ---- weights of free layout ----

/// A call of any of the three operators in the terms of the library's inner product.
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

Problem describe_call(const FullyConnected& e, const TensorDesc& weight, bool biased) {
  Problem problem{matrix(DType::bf16, e.rows, e.inner, {e.inner, 1}),
                  onednn::describe(weight),
                  {},
                  matrix(DType::bf16, e.rows, e.hidden, {e.hidden, 1})};
  if (biased) {
    problem.bias = onednn::describe(weight.dtype, base::Shape{e.hidden}, Layout::dense());
  }
  return problem;
}

base::Result<Plan> forward(const OpCall& call) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[0].shape);
  const bool biased = call.inputs.size() > 2;
  if (is_dense(call.inputs[1])) return onednn::without_gemm(dense_forward(e, biased));
  const Problem p = describe_call(e, call.inputs[1], biased);
  Plan plan{p.forward(),
            {matrix_input(DNNL_ARG_SRC, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
             matrix_output(DNNL_ARG_DST, 0)}};
  if (biased) plan.arguments.push_back(onednn::input(DNNL_ARG_BIAS, 2));
  return onednn::without_gemm(std::move(plan));
}

base::Result<Plan> backward_data(const OpCall& call) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[2].shape);
  if (is_dense(call.inputs[1])) return onednn::without_gemm(dense_backward_data(e));
  const Problem p = describe_call(e, call.inputs[1], false);
  const auto hint = p.forward();
  if (!hint) return Plan{};
  return onednn::without_gemm(
      {onednn::describe_gradient<dnnl::inner_product_backward_data>(hint, p.data, p.weight,
                                                                    p.result),
       {matrix_input(DNNL_ARG_DIFF_DST, 0), onednn::input(DNNL_ARG_WEIGHTS, 1),
        matrix_output(DNNL_ARG_DIFF_SRC, 0)}});
}

base::Result<Plan> backward_weights(const OpCall& call) {
  const FullyConnected e = read_fully_connected(call.params, call.inputs[1].shape);
  const bool biased = call.outputs.size() > 1;
  TensorDesc weight = call.outputs[0];
  if (is_dense(weight)) return onednn::without_gemm(dense_backward_weight(e, weight.dtype));
  weight.dtype = call.inputs[1].dtype;
  Problem p = describe_call(e, weight, biased);
  const auto hint = p.forward();
  if (!hint) return Plan{};
  // The gradients may be f32 (wide_gradients).
  p.weight = onednn::describe(call.outputs[0]);
  if (biased) p.bias = onednn::describe(call.outputs[1]);
  Plan plan{onednn::describe_gradient<dnnl::inner_product_backward_weights>(hint, p.data, p.weight,
                                                                            p.bias, p.result),
            {matrix_input(DNNL_ARG_DIFF_DST, 0), matrix_input(DNNL_ARG_SRC, 1),
             onednn::output(DNNL_ARG_DIFF_WEIGHTS, 0)}};
  if (biased) plan.arguments.push_back(onednn::output(DNNL_ARG_DIFF_BIAS, 1));
  return onednn::without_gemm(std::move(plan));
}

/// The kernel of the gradients of weight and bias: a product of matrices gives no second result.
BackendKernel kernel_of_weights() {
  BackendKernel result =
      onednn::product_kernel_of_bf16("fully_connected_backward_weights", backward_weights);
  result.kernel.make = [make = result.kernel.make](const OpCall& call) {
    using Made = base::Result<std::unique_ptr<Kernel>>;
    Made inner = make(call);
    const bool summed = call.outputs.size() > 1 && is_dense(call.outputs[0]);
    if (!inner.ok() || !summed) return inner;
    const base::Status bias = check_layout(call.outputs[1], Layout::dense());
    if (!bias.ok()) return Made(bias);
    const bool adds = !call.modes.empty() && call.modes[1] == WriteMode::add;
    return Made(std::make_unique<WithColumnSums>(
        *std::move(inner), read_fully_connected(call.params, call.inputs[1].shape), adds));
  };
  return result;
}

}  // namespace

std::span<const BackendKernel> kernels_fully_connected_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::product_kernel_of_bf16("fully_connected", forward),
      onednn::product_kernel_of_bf16("fully_connected_backward_data", backward_data),
      kernel_of_weights(),
  };
  return kernels;
}

}  // namespace troupe::ops
