// SPDX-License-Identifier: Apache-2.0
// Finding NaN and infinity before they spread: a gradient that holds one ends the job by name.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace troupe::base {

/// How many values of a floating tensor are NaN or infinite; 0 for other dtypes. `bytes` holds
/// whole values.
std::uint64_t count_not_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace troupe::base
