// SPDX-License-Identifier: Apache-2.0
// Where the logical elements of a dense or blocked tensor lie in its buffer. The place is a sum of
// one term per axis, so one small table per axis is enough, and a dense tensor needs none. And the
// layout of kernels that take whatever layout there is. Plain values; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/kernel.h"

namespace troupe::ops {

/// Offsets, in elements, of a tensor's logical elements.
class LayoutMap {
 public:
  /// CHECKs that the layout is dense or blocked.
  LayoutMap(const base::Layout& layout, const base::Shape& shape) : shape_(shape) {
    TROUPE_CHECK(layout.kind != base::Layout::Kind::opaque, "opaque layouts have no offsets");
    if (layout.is_dense()) return;
    // Extent and stride of each digit of a coordinate, innermost first.
    struct Digit {
      std::int32_t axis;
      std::int64_t extent, stride;
    };
    std::vector<Digit> digits;
    std::vector<std::int64_t> outer(layout.padded.dims().begin(), layout.padded.dims().end());
    std::int64_t stride = 1;
    for (auto block = layout.blocks.rbegin(); block != layout.blocks.rend(); ++block) {
      digits.push_back({block->axis, block->size, stride});
      outer[static_cast<std::size_t>(block->axis)] /= block->size;
      stride *= block->size;
    }
    for (auto axis = layout.order.rbegin(); axis != layout.order.rend(); ++axis) {
      const std::int64_t extent = outer[static_cast<std::size_t>(*axis)];
      digits.push_back({*axis, extent, stride});
      stride *= extent;
    }
    tables_.resize(static_cast<std::size_t>(shape.rank()));
    for (int axis = 0; axis < shape.rank(); ++axis) {
      std::vector<std::int64_t>& table = tables_[static_cast<std::size_t>(axis)];
      table.assign(static_cast<std::size_t>(shape[axis]), 0);
      for (std::size_t at = 0; at < table.size(); ++at) {
        auto rest = static_cast<std::int64_t>(at);
        for (const Digit& digit : digits) {
          if (digit.axis != axis) continue;
          table[at] += rest % digit.extent * digit.stride;
          rest /= digit.extent;
        }
      }
    }
  }

  /// Extent of the last axis, 1 for a scalar.
  std::int64_t row_elements() const { return shape_.rank() == 0 ? 1 : shape_[shape_.rank() - 1]; }
  /// Rows along the last axis.
  std::int64_t rows() const { return shape_.elements(0, std::max(shape_.rank() - 1, 0)); }
  /// Offset of the first element of row `row` in row-major order.
  std::int64_t row_offset(std::int64_t row) const {
    if (tables_.empty()) return row * row_elements();
    std::int64_t offset = 0;
    for (int axis = shape_.rank() - 2; axis >= 0; --axis) {
      offset +=
          tables_[static_cast<std::size_t>(axis)][static_cast<std::size_t>(row % shape_[axis])];
      row /= shape_[axis];
    }
    return offset;
  }
  /// What element `at` of a row adds to the row's offset.
  std::int64_t in_row(std::int64_t at) const {
    return tables_.empty() ? at : tables_.back()[static_cast<std::size_t>(at)];
  }
  /// Offset of the logical element of this row-major number.
  std::int64_t offset(std::int64_t element) const {
    return row_offset(element / row_elements()) + in_row(element % row_elements());
  }

 private:
  base::Shape shape_;
  std::vector<std::vector<std::int64_t>> tables_;  ///< of each axis; empty: dense
};

/// Into how many elements along `axis` blocks cut; 1: it is not cut.
inline std::int64_t block_along(const base::Layout& layout, int axis) {
  std::int64_t block = 1;
  for (const base::InnerBlock& each : layout.blocks) {
    if (each.axis == axis) block *= each.size;
  }
  return block;
}

/// `layout` for another shape of the same rank: padding follows the blocks.
inline base::Layout layout_for(base::Layout layout, const base::Shape& shape) {
  if (layout.kind != base::Layout::Kind::blocked) return layout;
  base::Shape padded = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t block = block_along(layout, axis);
    padded.set(axis, (shape[axis] + block - 1) / block * block);
  }
  layout.padded = padded;
  return layout;
}

/// The layout that a kernel which only follows its inputs gives to all of `tensors`: of the first
/// with a fixed layout, else the first present one that is blocked, else dense.
inline base::Layout followed_layout(std::span<const TensorDesc* const> tensors) {
  for (const TensorDesc* tensor : tensors) {
    if (!tensor->any_layout) return tensor->layout;
  }
  for (const TensorDesc* tensor : tensors) {
    if (tensor->layout.kind == base::Layout::Kind::blocked) return tensor->layout;
  }
  return base::Layout::dense();
}
inline base::Layout followed_layout(std::initializer_list<const TensorDesc*> tensors) {
  return followed_layout(std::span(tensors.begin(), tensors.size()));
}

/// An error where a layout is given and is another one than the kernel's own.
inline base::Status check_layout(const TensorDesc& tensor, const base::Layout& own) {
  if (tensor.any_layout || tensor.layout == own) return {};
  return base::error(base::Errc::unimplemented, "layout {} where {} is given", own.to_string(),
                     tensor.layout.to_string());
}

}  // namespace troupe::ops
