// SPDX-License-Identifier: Apache-2.0
// Extents of a fully_connected call, for all its kernels. Plain values; any thread.
#pragma once

#include <cstdint>

#include "ops/params.h"

namespace troupe::ops {

/// The call as matrices: data (rows, inner), weight (hidden, inner), output (rows, hidden).
struct FullyConnected {
  std::int64_t rows = 0, hidden = 0, inner = 0;
};

/// From parameters and a shape of data that shape inference accepted.
inline FullyConnected read_fully_connected(const Params& p, const base::Shape& data) {
  const int split = p.boolean("flatten") ? 1 : data.rank() - 1;
  return {data.elements(0, split), p.integer("num_hidden"), data.elements(split, data.rank())};
}

}  // namespace troupe::ops
