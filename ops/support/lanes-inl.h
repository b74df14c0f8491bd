// SPDX-License-Identifier: Apache-2.0
// Lanes of f32 vectors: integers beside them, and what is left of a row when no whole vector is.
// Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <hwy/highway.h>

#include <cstdint>

// As elements-inl.h: read once per instruction set.
#if HWY_ONCE
#pragma once
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Signed integers beside the lanes of D.
template <typename D>
using Ints = hn::RebindToSigned<D>;

template <typename D>
HWY_INLINE hn::Vec<Ints<D>> ints(D, std::int64_t number) {
  return hn::Set(Ints<D>(), static_cast<std::int32_t>(number));
}

/// run(d) with tags of fewer and fewer lanes, for what is left of a row.
template <typename Run>
HWY_INLINE void with_tags(Run&& run) {
  run(hn::ScalableTag<float>());
  run(hn::CappedTag<float, 8>());
  run(hn::CappedTag<float, 4>());
  run(hn::CappedTag<float, 1>());
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
