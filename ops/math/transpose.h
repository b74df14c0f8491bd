// SPDX-License-Identifier: Apache-2.0
// How the parameters of transpose read, for all its kernels. Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "ops/op.h"

namespace troupe::ops {

/// order[i]: the axis of data that becomes the output's axis i.
using AxisOrder = std::array<int, base::kRankMax>;

/// The parameter `axes` for data of so many axes.
inline base::Result<AxisOrder> read_axis_order(const Params& params, int rank) {
  const base::Shape& axes = params.shape("axes");
  AxisOrder order{};
  if (axes.rank() == 0) {
    for (int i = 0; i < rank; ++i) order[static_cast<std::size_t>(i)] = rank - 1 - i;
    return order;
  }
  std::array<bool, base::kRankMax> seen{};
  bool good = axes.rank() == rank;
  for (int i = 0; i < rank && good; ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    good = axis >= 0 && axis < rank && !std::exchange(seen[static_cast<std::size_t>(axis)], true);
    order[static_cast<std::size_t>(i)] = static_cast<int>(axis);
  }
  if (good) return order;
  return base::error(base::Errc::invalid_argument, "axes {} are not an order of {} axes",
                     to_attribute(axes), rank);
}

}  // namespace troupe::ops
