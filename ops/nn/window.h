// SPDX-License-Identifier: Apache-2.0
// Sliding windows over the two spatial axes of NCHW tensors: what convolution and pooling share.
// Plain values and pure functions; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ops/nn/support.h"

namespace troupe::ops {

/// A window over one spatial axis.
struct Window {
  std::int64_t kernel = 1, stride = 1, pad = 0, dilate = 1;

  /// Input positions that one window covers, gaps included.
  std::int64_t span() const { return (kernel - 1) * dilate + 1; }
  /// Windows over `input` positions; `full` also counts a last one that hangs over the edge.
  /// kUnknownDim where the input is unknown or smaller than the window.
  std::int64_t outputs(std::int64_t input, bool full = false) const {
    const std::int64_t room = input + 2 * pad - span();
    if (input < 0 || room < 0) return base::kUnknownDim;
    return (full ? room + stride - 1 : room) / stride + 1;
  }
  /// Input position of tap `tap` of window `output`; may lie in the padding.
  std::int64_t position(std::int64_t output, std::int64_t tap) const {
    return output * stride - pad + tap * dilate;
  }
  /// Windows [first, second) whose tap `tap` lies inside `input` positions.
  std::pair<std::int64_t, std::int64_t> inside(std::int64_t tap, std::int64_t input,
                                               std::int64_t outputs_count) const {
    const std::int64_t shift = pad - tap * dilate;
    const std::int64_t first = shift > 0 ? (shift + stride - 1) / stride : 0;
    const std::int64_t room = input - 1 + shift;
    const std::int64_t second = room < 0 ? 0 : std::min(outputs_count, room / stride + 1);
    return {first, std::max(first, second)};
  }
};

/// The windows of axes 2 and 3 from parameters kernel, stride, pad and, where it exists, dilate.
/// "()" means all ones (stride, dilate) or all zeros (pad). An error names the parameter.
inline base::Result<std::array<Window, 2>> read_windows(const Params& p, bool dilated) {
  std::array<Window, 2> windows;
  auto read = [&](std::string_view name, std::int64_t Window::*field) -> base::Status {
    const base::Shape& values = p.shape(name);
    if (values.rank() == 0 && name != "kernel") return {};
    if (values.rank() != 2) {
      return base::error(base::Errc::invalid_argument,
                         "{} is {}; it needs two extents (height, width)", name,
                         values.to_string());
    }
    windows[0].*field = values[0];
    windows[1].*field = values[1];
    return {};
  };
  TROUPE_TRY(read("kernel", &Window::kernel));
  TROUPE_TRY(read("stride", &Window::stride));
  TROUPE_TRY(read("pad", &Window::pad));
  if (dilated) TROUPE_TRY(read("dilate", &Window::dilate));
  return windows;
}

/// An error unless the window fits into the padded input (unknown inputs fit).
inline base::Status check_window(const Window& window, std::int64_t input) {
  if (input < 0 || input + 2 * window.pad >= window.span()) return {};
  return base::error(base::Errc::invalid_argument,
                     "a window of {} positions does not fit into {} with padding {}", window.span(),
                     input, window.pad);
}

/// A parameter of two extents (height, width), each at least `low`.
inline ParamDef spatial(std::string name, std::string doc, double low) {
  return {.name = std::move(name),
          .type = ParamType::shape,
          .initial = base::Shape{},
          .doc = std::move(doc),
          .low = low};
}

/// The parameter `layout`.
inline ParamDef layout_param() {
  return {.name = "layout",
          .type = ParamType::text,
          .initial = std::string("None"),
          .doc = "Logical order of axes; memory layouts are chosen by the executor.",
          .choices = {"None", "NCHW"}};
}

}  // namespace troupe::ops
