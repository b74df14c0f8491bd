// SPDX-License-Identifier: Apache-2.0
// Convolutions of dense tensors by kernels that like other layouts: reordered inside one call, so
// that a call outside of a graph, in which no pass chooses layouts, is fast, too. A few samples at
// a time, so that what is reordered stays in the cache; but for gradients of weights of 16 bits,
// whose sums are rounded once, all of them.
#pragma once

#include <cstdint>

#include "ops/kernel.h"

namespace troupe::ops {

/// `inner`, a kernel of one of convolution's three operators, between reorders, under the name of
/// `inner` and "-reordered". It takes calls that fix all tensors of four axes as dense, and
/// declines where `inner` likes them best so, too, where it wants a private layout, and where a
/// call adds to an output.
KernelDef reordered_kernel(const KernelDef& inner);

/// Into how many equal parts a batch of `samples` is cut, each of which has `sample_bytes` to be
/// reordered: as near to what a cache holds as a divisor comes. All parts share weights of
/// `weight_bytes`.
std::int64_t reordered_parts(std::int64_t samples, std::int64_t sample_bytes,
                             std::int64_t weight_bytes);

}  // namespace troupe::ops
