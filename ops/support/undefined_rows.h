// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix whose softmax is not defined: libraries turn them into numbers, and nobody
// learns that the network has diverged. Pure functions of views; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/kernel.h"

namespace troupe::ops {

/// (rows, classes) numbers of f32, dense.
struct Rows {
  std::int64_t count = 0, classes = 0;
};

/// marks[r] = 1 where row r holds NaN or infinity, or nothing above -infinity, else 0.
void mark_undefined_rows(const KernelContext& context, const Rows& rows, const float* data,
                         std::uint8_t* marks);
/// Every number of a marked row becomes NaN.
void clear_marked_rows(const Rows& rows, const std::uint8_t* marks, float* data);

}  // namespace troupe::ops
