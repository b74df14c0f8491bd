// SPDX-License-Identifier: Apache-2.0
// How the parameters of pad read, for all its kernels. Plain values; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "ops/nn/support.h"
#include "ops/support/borders.h"

namespace troupe::ops {

/// The parameter `mode`.
inline BorderMode border_mode(const Params& p) {
  const std::string& mode = p.text("mode");
  return mode == "constant" ? BorderMode::constant
         : mode == "edge"   ? BorderMode::edge
                            : BorderMode::reflect;
}

/// The borders of all axes; extents are not known yet.
inline base::Result<Borders> read_borders(const Params& p) {
  constexpr std::int64_t kWidthMax = std::numeric_limits<std::int32_t>::max();
  std::array<std::int64_t, std::size_t{2} * base::kRankMax> widths{};
  const auto count = parse_integers(p.text("pad_width"), widths);
  const auto fits = [](std::int64_t width) { return width >= 0 && width <= kWidthMax; };
  if (!count || *count == 0 || *count % 2 != 0 ||
      !std::all_of(widths.begin(), widths.end(), fits)) {
    return base::error(base::Errc::invalid_argument,
                       "parameter 'pad_width' is '{}' but must be two whole numbers per axis, of 0 "
                       "to {}, for at most {} axes",
                       p.text("pad_width"), kWidthMax, base::kRankMax);
  }
  Borders axes;
  axes.mode = border_mode(p);
  axes.rank = static_cast<int>(*count / 2);
  for (std::size_t i = 0; i < *count; i += 2) axes.list[i / 2] = {widths[i], widths[i + 1]};
  return axes;
}

/// CHECKs that inference accepted the parameters.
inline Borders read_borders(const Params& p, const base::Shape& data) {
  Borders axes = read_borders(p).value();
  for (int i = 0; i < axes.rank; ++i) axes[i].extent = data[i];
  return axes;
}

}  // namespace troupe::ops
