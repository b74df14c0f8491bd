// SPDX-License-Identifier: Apache-2.0
// Where an element of a dense or blocked layout is; the plain way, for tests.
#pragma once

#include <array>
#include <cstdint>

#include "base/layout.h"

namespace troupe::tests {

/// Offset, in elements, of a logical index in a dense or blocked layout.
inline std::int64_t offset_in(const base::Layout& layout, const base::Shape& shape,
                              std::int64_t linear) {
  if (layout.is_dense()) return linear;
  std::array<std::int64_t, base::kRankMax> index{};
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[std::size_t(axis)] = linear % shape[axis];
    linear /= shape[axis];
  }
  auto outer = layout.padded;
  std::int64_t offset = 0;
  std::int64_t stride = 1;
  for (auto block = layout.blocks.rbegin(); block != layout.blocks.rend(); ++block) {
    auto& rest = index[std::size_t(block->axis)];
    offset += rest % block->size * stride;
    rest /= block->size;
    stride *= block->size;
    outer.set(block->axis, outer[block->axis] / block->size);
  }
  for (auto axis = layout.order.rbegin(); axis != layout.order.rend(); ++axis) {
    offset += index[std::size_t(*axis)] * stride;
    stride *= outer[*axis];
  }
  return offset;
}

}  // namespace troupe::tests
