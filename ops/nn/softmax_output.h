// SPDX-License-Identifier: Apache-2.0
// Where the classes of a softmax_output call lie, for all its kernels. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "ops/nn/class_axis.h"

namespace troupe::ops {

/// By the parameters: along axis 1, along the last one, or all axes behind the first.
inline ClassAxis softmax_output_axis(const Params& p, const base::Shape& data) {
  if (p.boolean("multi_output")) return class_axis(data, 1);
  if (p.boolean("preserve_shape")) return class_axis(data, data.rank() - 1);
  return {data[0], data.elements(1, data.rank()), 1};
}

/// Positions per sample behind the class axis 1.
inline std::int64_t label_positions(const base::Shape& data) {
  return data.elements(2, data.rank());
}

}  // namespace troupe::ops
