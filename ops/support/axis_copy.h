// SPDX-License-Identifier: Apache-2.0
// Copies between dense tensors that differ along one axis only.
#pragma once

#include <algorithm>

#include "ops/support/chunks.h"

namespace troupe::ops {

/// A dense tensor seen as (outer, extent of one axis, inner).
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};
inline AxisView axis_view(const base::Shape& shape, int axis) {
  return {shape.elements(0, axis), shape[axis], shape.elements(axis + 1, shape.rank())};
}

/// `axis` counted from the front; negative ones count from the end.
inline base::Result<int> checked_axis(std::int64_t axis, const base::Shape& shape) {
  const std::int64_t index = axis < 0 ? axis + shape.rank() : axis;
  if (index >= 0 && index < shape.rank()) return static_cast<int>(index);
  return base::error(base::Errc::invalid_argument, "axis {} is out of range for shape {}", axis,
                     shape.to_string());
}

/// Places `count` along the axis of two tensors with equal outer and inner.
struct AxisRange {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
};

/// target[o, range.to + k, i] = source[o, range.from + k, i] for k in [0, range.count).
template <typename T>
void copy_axis(const KernelContext& context, const T* source, const AxisView& source_view,
               T* target, const AxisView& target_view, const AxisRange& range) {
  const std::int64_t inner = source_view.inner;
  const std::int64_t length = range.count * inner;
  if (length == 0) return;
  const std::int64_t chunk = std::max<std::int64_t>(1, kChunkElements / length);
  parallel_ranges(
      context, source_view.outer,
      [&](auto begin, auto end) {
        for (auto o = begin; o < end; ++o) {
          const T* x = source + (o * source_view.extent + range.from) * inner;
          std::copy(x, x + length, target + (o * target_view.extent + range.to) * inner);
        }
      },
      chunk);
}

}  // namespace troupe::ops
