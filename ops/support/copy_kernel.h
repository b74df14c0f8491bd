// SPDX-License-Identifier: Apache-2.0
// The kernel of operators that only rename the shape of a dense buffer. Pure functions of views.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "ops/op.h"
#include "ops/support/chunks.h"

namespace troupe::ops {

/// Copies input 0 to output 0; nothing when they share memory.
inline KernelDef copy_kernel() {
  return moving_kernel(reference_kernel([](const OpCall&, const KernelContext& c) -> base::Status {
    const auto* from = static_cast<const std::byte*>(c.inputs[0].data);
    auto* to = static_cast<std::byte*>(c.outputs[0].data);
    if (from == to) return {};
    parallel_ranges(
        c, c.outputs[0].bytes(),
        [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        },
        std::int64_t{1} << 20);
    return {};
  }));
}

/// Inference for output 0 of input 0's dtype, whatever that is.
inline base::Status infer_copied_dtype(const Params&, std::vector<std::optional<base::DType>>& in,
                                       std::vector<std::optional<base::DType>>& out) {
  if (in[0] && out[0] && *in[0] != *out[0]) {
    return base::error(base::Errc::invalid_argument, "dtypes {} and {} are mixed",
                       base::dtype_name(*in[0]), base::dtype_name(*out[0]));
  }
  if (!in[0]) in[0] = out[0];
  out[0] = in[0];
  return {};
}

}  // namespace troupe::ops
