// SPDX-License-Identifier: Apache-2.0
// dot and its gradients by oneDNN's matrix product; transposed operands are strides.
#include "ops/math/dot.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using onednn::matrix;

base::Result<onednn::Plan> product(const OpCall& call) {
  const Product p = product_of(call);
  const base::DType dtype = call.inputs[0].dtype;
  const auto primitive = onednn::describe_primitive<dnnl::matmul>(
      onednn::attributes(), matrix(dtype, p.rows, p.inner, {p.x_row, p.x_inner}),
      matrix(dtype, p.inner, p.columns, {p.y_inner, p.y_column}),
      matrix(dtype, p.rows, p.columns, {p.columns, 1}));
  return onednn::without_gemm({primitive,
                               {onednn::matrix_input(DNNL_ARG_SRC, static_cast<int>(p.x_input)),
                                onednn::matrix_input(DNNL_ARG_WEIGHTS, static_cast<int>(p.y_input)),
                                onednn::matrix_output(DNNL_ARG_DST, 0)}});
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
