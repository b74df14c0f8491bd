// SPDX-License-Identifier: Apache-2.0
// Older processors on a newer one, for tests of vector kernels. A test's thread only.
#pragma once

#include <hwy/highway.h>

#include <cstdint>

namespace troupe::ops::testing {

/// Limits the instruction sets that own vector kernels choose from, for a scope.
class HighwayLimit {
 public:
  explicit HighwayLimit(std::int64_t disabled) { hwy::DisableTargets(disabled); }
  ~HighwayLimit() { hwy::DisableTargets(0); }
  HighwayLimit(const HighwayLimit&) = delete;
  HighwayLimit& operator=(const HighwayLimit&) = delete;
};

}  // namespace troupe::ops::testing
