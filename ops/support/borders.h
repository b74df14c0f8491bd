// SPDX-License-Identifier: Apache-2.0
// Borders around a tensor, and what they hold. Plain values; any thread, and devices.
#pragma once

#include <array>
#include <cstdint>

#include "base/shape.h"

namespace troupe::ops {

/// One axis of a tensor with a border.
struct Border {
  std::int64_t before = 0, behind = 0;
  std::int64_t extent = base::kUnknownDim;  ///< of what is inside

  constexpr std::int64_t padded() const { return before + extent + behind; }
};

/// What a border holds: one number; the nearest element; the elements that lie as far inside.
enum class BorderMode : std::uint8_t { constant, edge, reflect };

/// The borders of all axes.
struct Borders {
  BorderMode mode = BorderMode::constant;
  int rank = 0;
  std::array<Border, base::kRankMax> list{};

  constexpr const Border& operator[](int axis) const {
    return list[static_cast<std::size_t>(axis)];
  }
  constexpr Border& operator[](int axis) { return list[static_cast<std::size_t>(axis)]; }

  /// The index inside of what is at `index` of an axis with its border; -1: the constant.
  constexpr std::int64_t source(const Border& border, std::int64_t index) const {
    const std::int64_t at = index - border.before, last = border.extent - 1;
    if (at >= 0 && at <= last) return at;
    if (mode == BorderMode::constant) return -1;
    if (mode == BorderMode::edge) return at < 0 ? 0 : last;
    return at < 0 ? -at : 2 * last - at;
  }
};

}  // namespace troupe::ops
