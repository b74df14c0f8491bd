// SPDX-License-Identifier: Apache-2.0
// Extents of a pooling call, read from its parameters and shapes, for all its kernels.
// Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "ops/nn/window.h"

namespace troupe::ops {

/// `planes` independent planes (batch * channels) of input and output positions.
struct Pooling {
  bool max = true;
  bool count_pad = true;
  std::int64_t planes = 0;
  std::array<std::int64_t, 2> input{}, output{};
  std::array<Window, 2> window;

  /// True when a last window reaches beyond the padding (`pooling_convention = full`).
  bool overhangs() const {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const Window& w = window[axis];
      if (w.position(output[axis] - 1, w.kernel) > input[axis] + w.pad) return true;
    }
    return false;
  }
  /// True when neighbouring windows may have inputs in common.
  bool windows_overlap() const {
    const auto overlap = [this](std::size_t axis) {
      return output[axis] > 1 && window[axis].stride < window[axis].kernel;
    };
    return overlap(0) || overlap(1);
  }
  /// True when a window at this place of an axis covers no input: the last ones, or all.
  bool is_empty(std::size_t axis, std::int64_t at) const {
    return input[axis] == 0 || window[axis].position(at, 0) >= input[axis];
  }
  /// True when a window covers no input at all.
  bool empty_window() const { return is_empty(0, output[0] - 1) || is_empty(1, output[1] - 1); }
};

/// The windows of pooling over data of this shape: the whole plane when pooling is global.
inline base::Result<std::array<Window, 2>> pooling_windows(const Params& p,
                                                           const base::Shape& data) {
  if (!p.boolean("global_pool")) return read_windows(p, false);
  std::array<Window, 2> windows;
  windows[0].kernel = data[2];
  windows[1].kernel = data[3];
  return windows;
}

/// CHECKs that the parameters were accepted by shape inference.
inline Pooling read_pooling(const Params& p, const base::Shape& data, const base::Shape& output) {
  Pooling v;
  v.max = p.text("pool_type") == "max";
  v.count_pad = p.boolean("count_include_pad");
  v.planes = data.elements(0, 2);
  v.input = {data[2], data[3]};
  v.output = {output[2], output[3]};
  v.window = pooling_windows(p, data).value();
  return v;
}

}  // namespace troupe::ops
