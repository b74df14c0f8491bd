// SPDX-License-Identifier: Apache-2.0
// dot and its gradients by oneDNN's matrix product; transposed operands are strides.
#include <string_view>

#include "ops/math/dot.h"
#include "ops/support/onednn.h"

namespace troupe::ops {
namespace {

using dnnl::memory;
using onednn::Argument;

memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    std::int64_t column_stride) {
  return {memory::dims{rows, columns}, memory::data_type::f32,
          memory::dims{row_stride, column_stride}};
}

base::Result<onednn::Plan> product(const OpCall& call) {
  const Product p = product_of(call);
  const auto view = [](int arg, bool is_output, std::size_t index) {
    return Argument{arg, is_output, static_cast<int>(index), 1, true};
  };
  const auto primitive = onednn::describe_primitive<dnnl::matmul>(
      onednn::attributes(), matrix(p.rows, p.inner, p.x_row, p.x_inner),
      matrix(p.inner, p.columns, p.y_inner, p.y_column), matrix(p.rows, p.columns, p.columns, 1));
  // The library's gemm allocates its packed copies while it runs.
  if (primitive && std::string_view(primitive.impl_info_str()).starts_with("gemm")) {
    return base::error(base::Errc::unimplemented, "only gemm, whose scratch is not planned");
  }
  return onednn::Plan{primitive,
                      {view(DNNL_ARG_SRC, false, p.x_input),
                       view(DNNL_ARG_WEIGHTS, false, p.y_input), view(DNNL_ARG_DST, true, 0)}};
}

}  // namespace

std::span<const BackendKernel> kernels_dot_onednn() {
  static const std::vector<BackendKernel> kernels = {
      onednn::backend_kernel("dot", product),
      onednn::backend_kernel("dot_backward_lhs", product),
      onednn::backend_kernel("dot_backward_rhs", product),
  };
  return kernels;
}

}  // namespace troupe::ops
