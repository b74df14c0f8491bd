// SPDX-License-Identifier: Apache-2.0
// Dot products of few rows with many: fully_connected on few samples, whose weights are read once
// and in the order in which they lie. Pure function; any thread.
#pragma once

#include <cstdint>

namespace troupe::ops {

/// out[r * out_stride + c] = bias[c] + sum over i of x[r * x_row + i] * y[c * y_row + i].
struct DotRows {
  const float* x = nullptr;
  const float* y = nullptr;
  const float* bias = nullptr;  ///< null: none
  float* out = nullptr;
  std::int64_t rows = 0, inner = 0;
  std::int64_t x_row = 0, y_row = 0, out_stride = 0;
  bool add = false;  ///< to what is in `out`
};

/// Most rows of x, so that y is read once, and most columns at a time.
inline constexpr std::int64_t kDotRows = 8, kDotColumns = 48;

/// Columns [begin, end), at most kDotColumns. Each lane of a vector adds its terms in order, then
/// the lanes are added: an output's bits follow from `inner` and the instruction set alone.
void dot_rows(const DotRows& dots, std::int64_t begin, std::int64_t end);

}  // namespace troupe::ops
