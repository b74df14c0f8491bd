// SPDX-License-Identifier: Apache-2.0
// The values of one dtype in another. Pure; any thread.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace troupe::base {

/// `count` values of dtype `from` at `source` in dtype `to` at `target`; the two do not overlap.
/// From floating to integer types values go towards zero and stop at the type's ends, NaN gives 0;
/// integers wrap; bool is "not zero". To types of 16 bits values are rounded to the nearest, ties
/// to even, once.
void cast_values(DType from, const void* source, DType to, void* target, std::int64_t count);

}  // namespace troupe::base
