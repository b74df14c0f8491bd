// SPDX-License-Identifier: Apache-2.0
// Text and size of layouts.
#include "base/layout.h"

#include <algorithm>

namespace troupe::base {

std::string Layout::to_string() const {
  if (kind == Kind::dense) return "dense";
  if (kind == Kind::opaque) return "opaque(" + tag + ")";
  std::string text;
  for (std::int32_t axis : order) {
    const bool blocked = std::any_of(blocks.begin(), blocks.end(),
                                     [axis](const InnerBlock& b) { return b.axis == axis; });
    text += static_cast<char>((blocked ? 'A' : 'a') + axis);
  }
  for (const InnerBlock& block : blocks) {
    text += std::to_string(block.size) + static_cast<char>('a' + block.axis);
  }
  return text;
}

std::int64_t Layout::buffer_bytes(const Shape& shape, std::size_t element_bytes) const {
  if (kind == Kind::opaque) return bytes;
  const Shape& extents = kind == Kind::blocked ? padded : shape;
  return extents.elements() * static_cast<std::int64_t>(element_bytes);
}

}  // namespace troupe::base
