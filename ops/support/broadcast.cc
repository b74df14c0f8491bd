// SPDX-License-Identifier: Apache-2.0
// Shapes and strides of broadcasting.
#include "ops/support/broadcast.h"

namespace troupe::ops {
namespace {

using base::kUnknownDim;
using base::Result;
using base::Shape;

/// Extent of `shape` at `axis` counted in an output of rank `rank`; 1 in front of its own axes.
std::int64_t aligned_extent(const Shape& shape, int axis, int rank) {
  const int own = axis - (rank - shape.rank());
  return own < 0 ? 1 : shape[own];
}

/// Row-major strides of `shape` aligned to `out`; 0 where it repeats.
std::array<std::int64_t, base::kRankMax> aligned_strides(const Shape& out, const Shape& shape) {
  std::array<std::int64_t, base::kRankMax> strides{};
  std::int64_t stride = 1;
  for (int axis = out.rank() - 1; axis >= 0; --axis) {
    const std::int64_t extent = aligned_extent(shape, axis, out.rank());
    TROUPE_CHECK(extent == out[axis] || extent == 1, "operand does not broadcast to the output");
    strides[static_cast<std::size_t>(axis)] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  return strides;
}

}  // namespace

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  if (!a.rank_known() || !b.rank_known()) return Shape::unknown();
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t x = aligned_extent(a, axis, rank);
    const std::int64_t y = aligned_extent(b, axis, rank);
    if (x == y || y == 1) {
      out.push_back(x);
    } else if (x == 1) {
      out.push_back(y);
    } else if (x == kUnknownDim || y == kUnknownDim) {
      out.push_back(std::max(x, y));
    } else {
      return base::error(base::Errc::invalid_argument, "shapes {} and {} do not broadcast",
                         a.to_string(), b.to_string());
    }
  }
  return out;
}

base::Status infer_broadcast(const Params&, std::vector<Shape>& inputs,
                             std::vector<Shape>& outputs) {
  Shape common = inputs.front();
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    TROUPE_TRY_ASSIGN(common, broadcast_shapes(common, inputs[i]));
  }
  TROUPE_TRY_ASSIGN(outputs.front(), base::merge_shapes(outputs.front(), common));
  return {};
}

BroadcastWalk broadcast_walk(const Shape& out, const Shape& a, const Shape& b) {
  const auto strides_a = aligned_strides(out, a);
  const auto strides_b = aligned_strides(out, b);
  BroadcastWalk walk;
  for (int axis = 0; axis < out.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (out[axis] == 1) continue;
    if (walk.rank > 0) {
      const auto previous = static_cast<std::size_t>(walk.rank - 1);
      if (walk.stride_a[previous] == strides_a[i] * out[axis] &&
          walk.stride_b[previous] == strides_b[i] * out[axis]) {
        walk.extent[previous] *= out[axis];
        walk.stride_a[previous] = strides_a[i];
        walk.stride_b[previous] = strides_b[i];
        continue;
      }
    }
    const auto next = static_cast<std::size_t>(walk.rank++);
    walk.extent[next] = out[axis];
    walk.stride_a[next] = strides_a[i];
    walk.stride_b[next] = strides_b[i];
  }
  if (walk.rank == 0) {
    walk.rank = 1;
    walk.extent[0] = 1;
  }
  return walk;
}

}  // namespace troupe::ops
