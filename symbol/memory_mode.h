// SPDX-License-Identifier: Apache-2.0
// What of an executor's memory may be shared, and what need not be kept. Plain values.
#pragma once

#include <cstdint>

#include "base/device.h"

namespace troupe::symbol {

/// How values may share memory. The bits of results are the same.
enum class MemoryMode : std::uint8_t {
  none,  ///< every value and scratch has bytes of its own
  /// An output may take the place of an input that nobody else needs, and values that are others in
  /// another shape, their parts or what they are joined to lie in them.
  in_place,
  share,  ///< bytes are used again when what they hold is not needed any more
  both,
};
inline bool goes_in_place(MemoryMode mode) {
  return mode == MemoryMode::in_place || mode == MemoryMode::both;
}

/// Which forward values the backward pass computes once more, so that they need not be kept. The
/// bits of results are the same.
enum class Recompute : std::uint8_t {
  none,
  cheap,   ///< what costs about 4 % of a step by the kernels' rules; few products or none
  sqrt,    ///< all but the borders of segments, as many of those as make the plan smallest
  budget,  ///< what costs least among the plans that fit into a budget
};
/// What is computed once more where nobody says so: on GPUs nothing, until it is known what it
/// costs there.
inline Recompute recompute_by_default(base::Device device) {
  return device.kind == base::DeviceKind::cuda ? Recompute::none : Recompute::cheap;
}

}  // namespace troupe::symbol
