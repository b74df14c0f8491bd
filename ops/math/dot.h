// SPDX-License-Identifier: Apache-2.0
// dot and its two gradients as one matrix product with strides, for the reference and oneDNN.
#pragma once

#include "ops/op.h"

namespace troupe::ops {

/// out[r, c] = sum over i of x[r * x_row + i * x_inner] * y[i * y_inner + c * y_column];
/// `out` is dense (rows, columns).
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
};

/// The product that a call of dot, dot_backward_lhs or dot_backward_rhs computes.
Product product_of(const OpCall& call);

}  // namespace troupe::ops
