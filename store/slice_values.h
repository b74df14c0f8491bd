// SPDX-License-Identifier: Apache-2.0
// What a slice consists of at one version. Handles only: whoever publishes them never writes the
// bytes again. Plain value; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"

namespace troupe::store {

/// One slice at one version: weights and the optimizer's slots (momentum, ...), each as many
/// elements as the slice has. Published buffers are immutable; a new version lies in new ones.
struct SliceValues {
  base::Buffer weight;
  std::vector<base::Buffer> slots;
  base::Buffer rounded;  ///< the weights in the key's weight_wire; null where that is its dtype

  /// The weights as workers get them.
  const base::Buffer& sent() const { return rounded ? rounded : weight; }
};

/// A slice at a version, with what its owner counts.
struct SliceState {
  SliceValues values;
  std::uint64_t version = 0;  ///< under sequential the step whose weights these are
  std::uint64_t updates = 0;  ///< updates so far: Adam's t; contributions of nothing do not count
};

}  // namespace troupe::store
