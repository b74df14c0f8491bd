// SPDX-License-Identifier: Apache-2.0
// The layout in which channels are neighbours in memory (NHWC), which tensor cores like best.
#pragma once

#include "ops/kernel.h"
#include "ops/support/layout_map.h"

namespace troupe::ops {

/// Axes (sample, height, width, channel) of a shape (sample, channel, height, width).
inline base::Layout channels_last(const base::Shape& shape) {
  base::Layout layout;
  layout.kind = base::Layout::Kind::blocked;
  layout.order = {0, 2, 3, 1};
  return layout_for(layout, shape);
}
inline bool is_channels_last(const TensorDesc& tensor) {
  return tensor.shape.rank() == 4 && tensor.layout == channels_last(tensor.shape);
}

}  // namespace troupe::ops
