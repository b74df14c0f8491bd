// SPDX-License-Identifier: Apache-2.0
// Gradients and weights in the dtypes they travel in (KeyInfo::gradient_wire, weight_wire) and
// back. Pure but for the pool; any thread.
#pragma once

#include <string_view>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/status.h"

namespace troupe::store {

/// `values` of dtype `from` in a new buffer of dtype `to`, each rounded once (base::cast_values());
/// where the two are the same, the same buffer.
base::Result<base::Buffer> convert(const base::Buffer& values, base::DType from, base::DType to,
                                   base::BufferPool& pool, std::string_view holder);

/// The same into `place`, which holds as many values of dtype `to`; returns the bytes written.
std::size_t convert_into(const base::Buffer& values, base::DType from, base::DType to,
                         std::byte* place);

}  // namespace troupe::store
