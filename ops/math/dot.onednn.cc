// SPDX-License-Identifier: Apache-2.0
// dot and its gradients by oneDNN's matrix product; transposed operands are strides.
#include "ops/math/dot.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using dnnl::memory;
using onednn::Argument;

struct Strides {
  std::int64_t row, column;
};

memory::desc matrix(base::DType dtype, std::int64_t rows, std::int64_t columns,
                    const Strides& strides) {
  return {memory::dims{rows, columns}, onednn::library_type(dtype),
          memory::dims{strides.row, strides.column}};
}

base::Result<onednn::Plan> product(const OpCall& call) {
  const Product p = product_of(call);
  const auto view = [](int arg, bool is_output, std::size_t index) {
    return Argument{arg, is_output, static_cast<int>(index), 1, true};
  };
  const base::DType dtype = call.inputs[0].dtype;
  const auto primitive = onednn::describe_primitive<dnnl::matmul>(
      onednn::attributes(), matrix(dtype, p.rows, p.inner, {p.x_row, p.x_inner}),
      matrix(dtype, p.inner, p.columns, {p.y_inner, p.y_column}),
      matrix(dtype, p.rows, p.columns, {p.columns, 1}));
  return onednn::without_gemm(
      {primitive,
       {view(DNNL_ARG_SRC, false, p.x_input), view(DNNL_ARG_WEIGHTS, false, p.y_input),
        view(DNNL_ARG_DST, true, 0)}});
}

}  // namespace

std::span<const BackendKernel> kernels_dot_onednn() {
  static const std::vector<BackendKernel> kernels = [] {
    std::vector<BackendKernel> list;
    for (const char* op : {"dot", "dot_backward_lhs", "dot_backward_rhs"}) {
      list.push_back(onednn::backend_kernel(op, product));
      list.push_back(onednn::product_kernel_of_bf16(op, product));
    }
    return list;
  }();
  return kernels;
}

}  // namespace troupe::ops
