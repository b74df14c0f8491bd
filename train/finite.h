// SPDX-License-Identifier: Apache-2.0
// Finding NaN and infinity before they spread: a gradient that holds one ends the job by name.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace troupe::train {

/// How many values of an f32 or f64 tensor are NaN or infinite; 0 for other dtypes. `bytes` holds
/// whole values.
std::uint64_t count_not_finite(base::DType dtype, std::span<const std::byte> bytes);

}  // namespace troupe::train
