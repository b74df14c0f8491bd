// SPDX-License-Identifier: Apache-2.0
// Work of pointwise kernels in chunks whose borders follow from the number of elements alone, so
// that results do not depend on the size of the team.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel.h"

namespace troupe::ops {

/// Elements of one chunk of a pointwise kernel; a multiple of every vector length and of Philox's
/// block of four.
inline constexpr std::int64_t kChunkElements = 16384;

/// f(begin, end) over [0, count) in chunks of `chunk` elements, on the lane's team.
template <typename F>
void parallel_ranges(const KernelContext& context, std::int64_t count, F&& f,
                     std::int64_t chunk = kChunkElements) {
  context.parallel((count + chunk - 1) / chunk, [&](std::int64_t index) {
    const std::int64_t begin = index * chunk;
    f(begin, std::min(begin + chunk, count));
  });
}

}  // namespace troupe::ops
