// SPDX-License-Identifier: Apache-2.0
// Windows over one spatial axis for own kernels on GPUs.
#pragma once

#include <cstdint>

#include "ops/nn/window.h"
#include "ops/support/device_kernel.h"

namespace troupe::ops {

/// A Window over `input` positions, of which there are `output`.
struct DeviceWindow {
  std::int64_t kernel = 1, pad = 0, dilate = 1;
  std::int64_t input = 0, output = 0;
  Divider stride;

  /// Input position of a window's first tap; may lie in the padding.
  TROUPE_HOST_DEVICE std::int64_t start(std::int64_t window) const {
    return window * stride.divisor() - pad;
  }
  TROUPE_HOST_DEVICE bool inside(std::int64_t at) const { return at >= 0 && at < input; }
  /// The window that begins so far behind the beginning of the padding; -1: none.
  TROUPE_HOST_DEVICE std::int64_t window_from(std::int64_t from) const {
    if (from < 0) return -1;
    const Divider::Digits window = stride.digits(from);
    return window.remainder == 0 && window.quotient < output ? window.quotient : -1;
  }
  /// The first and the last window that a position may lie in, where taps have no gaps.
  TROUPE_HOST_DEVICE std::int64_t first(std::int64_t at) const {
    const std::int64_t before = at + pad - kernel + 1;
    return before <= 0 ? 0 : stride.quotient(before - 1) + 1;
  }
  TROUPE_HOST_DEVICE std::int64_t last(std::int64_t at) const {
    const std::int64_t window = stride.quotient(at + pad);
    return window < output ? window : output - 1;
  }
};

inline DeviceWindow device_window(const Window& w, std::int64_t input, std::int64_t output) {
  return {w.kernel, w.pad, w.dilate, input, output, Divider(w.stride)};
}

}  // namespace troupe::ops
