// SPDX-License-Identifier: Apache-2.0
// The elements that are left of a row behind its last whole vector, for SIMD kernels.
// Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

// As elements-inl.h: read once per instruction set.
#if HWY_ONCE
#pragma once
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The first `count` elements of a vector; no others are touched in memory.
template <typename D>
class Tail {
 public:
  using T = hn::TFromD<D>;

#if HWY_TARGET <= HWY_AVX2
  Tail(D, std::int64_t count) : mask_(hn::FirstN(D(), static_cast<std::size_t>(count))) {}

  /// Zero in the elements behind.
  HWY_INLINE hn::Vec<D> load(const T* place) const {
    return hn::MaskedLoad(mask_, D(), place);
  }
  HWY_INLINE void store(hn::Vec<D> vector, T* place) const {
    hn::BlendedStore(vector, mask_, D(), place);
  }

 private:
  hn::Mask<D> mask_;
#else
  // On these targets the library's masked accesses want aligned addresses and touch the elements
  // behind, which may be another thread's or nobody's.
  Tail(D, std::int64_t count) : count_(count) {}

  HWY_INLINE hn::Vec<D> load(const T* place) const {
    HWY_ALIGN T values[HWY_MAX_BYTES / sizeof(T)] = {};
    std::copy_n(place, count_, values);
    return hn::Load(D(), values);
  }
  HWY_INLINE void store(hn::Vec<D> vector, T* place) const {
    HWY_ALIGN T values[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(vector, D(), values);
    std::copy_n(values, count_, place);
  }

 private:
  std::int64_t count_;
#endif
};

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
