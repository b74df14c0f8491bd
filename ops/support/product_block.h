// SPDX-License-Identifier: Apache-2.0
// One block of a matrix product in tiles of registers: what product.cc is made of, for other
// kernels whose operands lie in scratch memory. Any thread.
#pragma once

#include <cstdint>

namespace troupe::ops {

/// A block of left (rows, inner) times right (inner, columns), whose columns are neighbours.
struct ProductBlock {
  const float* left;
  const float* right;
  const float* bias;  ///< of out's columns; null: none
  float* out;
  std::int64_t rows, columns, inner;
  std::int64_t left_row, left_inner, right_inner;
  std::int64_t out_stride;  ///< from one row of out to the next
  std::int64_t ahead;       ///< to what of right is needed next, so that it is fetched; 0: nothing
  bool add;                 ///< to what is in out
  bool stream;              ///< out goes past the caches; its rows begin at whole vectors
  bool transposed;          ///< rows of the block are columns of out
};
/// Computes a block with the widest vectors of the machine; sums run over `inner` in order.
void multiply_product_block(const ProductBlock& block);

}  // namespace troupe::ops
