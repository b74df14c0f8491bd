// SPDX-License-Identifier: Apache-2.0
// Extents of a two-dimensional convolution, read from a call of any of its three operators.
// Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "ops/nn/window.h"

namespace troupe::ops {

/// data (batch, groups * in, height, width), weight (groups * out, in, kernel...), output
/// (batch, groups * out, ...); `in` and `out` count the channels of one group.
struct Convolution {
  std::int64_t batch = 0, groups = 1, in = 0, out = 0;
  std::array<std::int64_t, 2> input{}, output{};
  std::array<Window, 2> window;

  std::int64_t input_plane() const { return input[0] * input[1]; }
  std::int64_t output_plane() const { return output[0] * output[1]; }
  std::int64_t taps() const { return window[0].kernel * window[1].kernel; }
};

/// CHECKs that the parameters were accepted by shape inference.
inline Convolution read_convolution(const Params& p, const base::Shape& data,
                                    const base::Shape& output) {
  Convolution c;
  c.window = read_windows(p, true).value();
  c.batch = data[0];
  c.groups = p.integer("num_group");
  c.in = data[1] / c.groups;
  c.out = output[1] / c.groups;
  c.input = {data[2], data[3]};
  c.output = {output[2], output[3]};
  return c;
}

}  // namespace troupe::ops
