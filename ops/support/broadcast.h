// SPDX-License-Identifier: Apache-2.0
// Broadcasting as in NumPy: shapes are aligned at their last axes, an extent of 1 repeats.
// Plain values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/shape.h"
#include "ops/kernel.h"
#include "ops/params.h"

namespace troupe::ops {

/// The shape of an element-wise result on `a` and `b`, as far as partial shapes tell.
base::Result<base::Shape> broadcast_shapes(const base::Shape& a, const base::Shape& b);

/// InferShape for operators of any number of inputs broadcast to one output.
base::Status infer_broadcast(const Params&, std::vector<base::Shape>& inputs,
                             std::vector<base::Shape>& outputs);

/// How two broadcast operands are walked beside a dense output: neighbouring axes that both
/// operands walk alike are joined, so most calls have rank 1 or 2.
struct BroadcastWalk {
  int rank = 0;
  std::array<std::int64_t, base::kRankMax> extent{};
  std::array<std::int64_t, base::kRankMax> stride_a{};  ///< 0 where a repeats
  std::array<std::int64_t, base::kRankMax> stride_b{};
};
/// CHECKs that both shapes broadcast to `out`.
BroadcastWalk broadcast_walk(const base::Shape& out, const base::Shape& a, const base::Shape& b);

/// Calls run(out_offset, a_offset, b_offset, count) for the pieces of output elements
/// [begin, end) that lie in one run of the innermost axis; there operand a advances by
/// walk.stride_a[rank - 1] (0 or 1), b likewise.
template <typename Run>
void for_each_run(const BroadcastWalk& walk, std::int64_t begin, std::int64_t end, Run&& run) {
  const int last = walk.rank - 1;
  const auto inner = static_cast<std::size_t>(last);
  while (begin < end) {
    std::int64_t rest = begin;
    std::int64_t a = 0;
    std::int64_t b = 0;
    for (int axis = last; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      const std::int64_t index = rest % walk.extent[i];
      rest /= walk.extent[i];
      a += index * walk.stride_a[i];
      b += index * walk.stride_b[i];
    }
    const std::int64_t count =
        std::min(walk.extent[inner] - begin % walk.extent[inner], end - begin);
    run(begin, a, b, count);
    begin += count;
  }
}

}  // namespace troupe::ops
