// SPDX-License-Identifier: Apache-2.0
// The messages by which parameter servers decide together about a step whose gradients are all in:
// whether it counts, and what its sums are divided by. Who says what when: store/step_judge.h.
// Plain values; part of messages.h.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe::schemas {

/// What a slice's sum of gradients of a step is like.
struct SliceFacts {
  double squares = 0.0;  ///< sum of the squares of its finite elements, in f64, in a fixed order
  std::uint64_t not_finite = 0;  ///< elements that are infinite or NaN
  friend bool operator==(const SliceFacts&, const SliceFacts&) = default;
};

/// A shard tells the server of slice (0, 0) of the sums of a step: all of its slices are in.
struct StepFacts {
  std::uint64_t step = 0;
  std::uint32_t shard = 0;
  double count = 0.0;              ///< the sum's: samples of all ranks
  double loss_scale = 0.0;         ///< of the step; 0: the shard does not hold that key
  std::vector<SliceFacts> slices;  ///< the shard's, in the order of the layout

  friend bool operator==(const StepFacts&, const StepFacts&) = default;
};

/// The server of slice (0, 0) tells every shard. Until then none of the step's updates begins.
struct StepVerdict {
  std::uint64_t step = 0;
  bool skip = false;     ///< the step's gradients are dropped: all keys stay as they are
  double divisor = 1.0;  ///< dense sums are divided by count x divisor: loss scale and clipping
  double norm = 0.0;     ///< of the mean gradients of all dense keys together
  friend bool operator==(const StepVerdict&, const StepVerdict&) = default;
};

}  // namespace troupe::schemas
