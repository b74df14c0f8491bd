// SPDX-License-Identifier: Apache-2.0
// How the parameters of slice_axis read, for all its kernels. Plain values; any thread.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/op.h"
#include "ops/support/axis_copy.h"

namespace troupe::ops {

/// What `end` is where it is None.
inline constexpr std::int64_t kSliceToTheEnd = std::numeric_limits<std::int64_t>::max();

/// The axis and the range of a shape whose extent there is known.
struct SliceRange {
  int axis = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
inline base::Result<SliceRange> checked_slice(const Params& params, const base::Shape& data) {
  TROUPE_TRY_ASSIGN(const int axis, checked_axis(params.integer("axis"), data));
  const std::int64_t extent = data[axis];
  const auto from_front = [extent](std::int64_t index) {
    return index < 0 ? index + extent : index;
  };
  const std::int64_t begin = from_front(params.integer("begin"));
  const std::int64_t given = params.integer("end");
  const std::int64_t end = given == kSliceToTheEnd ? extent : from_front(given);
  if (begin < 0 || begin > end || end > extent) {
    return base::error(base::Errc::invalid_argument,
                       "range [{}, {}) does not fit axis {} of shape {}", begin, end, axis,
                       data.to_string());
  }
  return SliceRange{axis, begin, end};
}

}  // namespace troupe::ops
