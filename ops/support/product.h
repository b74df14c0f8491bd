// SPDX-License-Identifier: Apache-2.0
// Matrix products of f32 tensors as strides: what dot, fully_connected and their gradients are. Its
// kernel needs no packed copies, so it plans what it uses: oneDNN's gemm allocates while it runs.
#pragma once

#include <cstdint>

#include "ops/kernel.h"

namespace troupe::ops {

/// out[r, c] = bias[c] + sum over i of x[r * x_row + i * x_inner] * y[i * y_inner + c * y_column];
/// `out`, output 0, is dense (rows, columns). One stride of y is 1.
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  std::size_t x_input = 0;  ///< index of x among the call's inputs
  std::size_t y_input = 1;
  std::int64_t x_row = 0;
  std::int64_t x_inner = 0;
  std::int64_t y_inner = 0;
  std::int64_t y_column = 0;
  int bias_input = -1;       ///< -1: no bias
  int row_sums_output = -1;  ///< output (rows,): sum over i of x[r, i]; -1: not wanted
};

/// A kernel "simd:product", whose name says how long sums are cut, for calls that are the product
/// `read(call)`, with the widest vectors of the machine. Sums run over i in a fixed order per
/// instruction set, whatever team and chunks are. Declines other dtypes than f32, blocked layouts
/// and empty tensors. Outputs may be added to.
KernelDef product_kernel(Product (*read)(const OpCall&));

}  // namespace troupe::ops
