// SPDX-License-Identifier: Apache-2.0
// Copies between tensors that differ along one axis only, dense ones or whole blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "ops/support/chunks.h"

namespace troupe::ops {

/// A tensor's buffer seen as (outer, extent of one axis, inner). Blocked: the axis counts blocks of
/// `block` places.
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
  std::int64_t block = 1;
};
/// The layout is no opaque one.
AxisView axis_view(const TensorDesc& tensor, int axis);

/// `axis` counted from the front; negative ones count from the end.
inline base::Result<int> checked_axis(std::int64_t axis, const base::Shape& shape) {
  const std::int64_t index = axis < 0 ? axis + shape.rank() : axis;
  if (index >= 0 && index < shape.rank()) return static_cast<int>(index);
  return base::error(base::Errc::invalid_argument, "axis {} is out of range for shape {}", axis,
                     shape.to_string());
}

/// Places `count` along the axis of two tensors with equal outer, inner and blocks, where blocks
/// begin; the last block may be padded.
struct AxisRange {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
};

/// Offset in bytes of place `at`, the first of a block, in a tensor whose elements have `element`
/// bytes. -1: the tensor has several outer places, so that no range of the axis lies in one piece.
std::int64_t offset_along(const AxisView& view, std::int64_t at, std::size_t element);

/// target[o, range.to + k, i] = source[o, range.from + k, i] for k in [0, range.count). Nothing,
/// where these are one and the same memory.
template <typename T>
void copy_axis(const KernelContext& context, const T* source, const AxisView& source_view,
               T* target, const AxisView& target_view, const AxisRange& range) {
  const std::int64_t inner = source_view.inner, block = source_view.block;
  const std::int64_t length = (range.count + block - 1) / block * inner;
  const T* first = source + range.from / block * inner;
  if (length == 0 || (source_view.outer == 1 && first == target + range.to / block * inner)) return;
  const std::int64_t chunk = std::max<std::int64_t>(1, kChunkElements / length);
  parallel_ranges(
      context, source_view.outer,
      [&](auto begin, auto end) {
        for (auto o = begin; o < end; ++o) {
          const T* x = source + (o * source_view.extent + range.from / block) * inner;
          std::copy(x, x + length, target + (o * target_view.extent + range.to / block) * inner);
        }
      },
      chunk);
}

/// The candidate before the reference of an operator that copies along an axis, f32 and f64: every
/// tensor has the layout of the first one that is fixed or, if none is, blocked. `accepts` sees the
/// call with those layouts and declines where a copied range cuts a block; `run` is as a reference
/// kernel's. Declines dense calls, other ranks, other fixed layouts, and add modes.
KernelDef blocked_copy_kernel(std::function<base::Status(const OpCall&)> accepts,
                              std::function<base::Status(const OpCall&, const KernelContext&)> run);

}  // namespace troupe::ops
