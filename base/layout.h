// SPDX-License-Identifier: Apache-2.0
// How a tensor's elements lie in memory. Compared by value; any thread.
// Servers, links and files only ever see dense row-major tensors; other layouts live between the
// ports of an executor, where the pass choose_layouts puts `reorder` nodes around them.
#pragma once

#include <cstdint>
#include <string>

#include "base/inline_vector.h"
#include "base/shape.h"

namespace troupe::base {

/// Which layouts a graph may use between its ports. dense: row-major everywhere; chosen: what the
/// kernels prefer.
enum class LayoutPolicy : std::uint8_t { dense, chosen };

/// One inner block of a blocked layout: `axis` is cut into pieces of `size` elements.
struct InnerBlock {
  std::int32_t axis = 0;
  std::int64_t size = 0;
  friend bool operator==(const InnerBlock&, const InnerBlock&) = default;
};

/// dense = row-major without gaps; blocked = permuted outer axes and inner blocks, padded with
/// zeros; opaque = a library's private form (`tag` identifies it, never converted back).
struct Layout {
  enum class Kind : std::uint8_t { dense, blocked, opaque };
  using Order = InlineVector<std::int32_t, kRankMax>;
  using Blocks = InlineVector<InnerBlock, 4>;

  Kind kind = Kind::dense;
  /// blocked: order of the outer axes, outermost first.
  Order order;
  /// blocked: inner blocks, outermost first; the last is contiguous.
  Blocks blocks;
  /// blocked: extents after padding to whole blocks.
  Shape padded;
  /// opaque: library's identifying bytes and the size of the buffer.
  std::string tag;
  std::int64_t bytes = 0;

  static Layout dense() { return {}; }
  bool is_dense() const { return kind == Kind::dense; }
  /// "dense", "aBcd16b" (MXNet and oneDNN users' notation) or "opaque(TAG)".
  std::string to_string() const;
  /// Bytes of a buffer that holds `shape` elements of `element_bytes` each in this layout.
  std::int64_t buffer_bytes(const Shape& shape, std::size_t element_bytes) const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace troupe::base
