// SPDX-License-Identifier: Apache-2.0
// Vectors of numbers from memory and back, where memory may hold bf16: kernels compute with those
// in f32, to which they convert exactly, and round once, to the nearest, halves to even, as
// base::BF16 does. NaN stays NaN.
// Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/float16.h"
#include "ops/kernel.h"
#include "ops/support/tail-inl.h"

#ifndef TROUPE_OPS_MEMORY_ONCE
#define TROUPE_OPS_MEMORY_ONCE
namespace troupe::ops {

/// What numbers of T are computed in.
template <typename T>
using Computed = std::conditional_t<std::is_same_v<T, base::BF16>, float, T>;

/// f(T{}) with T = float, double or base::BF16 by dtype; an error names any other dtype.
template <typename F>
base::Status with_memory(base::DType dtype, F&& f) {
  return dtype == base::DType::bf16 ? f(base::BF16{}) : with_floating(dtype, f);
}

}  // namespace troupe::ops
#endif

// As elements-inl.h: read once per instruction set.
#if HWY_ONCE
#pragma once
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The bits of as many bf16 as D has lanes.
template <typename D>
using Halves = hn::Rebind<std::uint16_t, D>;

template <typename D>
HWY_INLINE hn::Vec<D> widened(D d, hn::Vec<Halves<D>> bits) {
  constexpr int kBelow = 16;
  return hn::BitCast(d, hn::ShiftLeft<kBelow>(hn::PromoteTo(hn::RebindToUnsigned<D>(), bits)));
}

template <typename D>
HWY_INLINE hn::Vec<Halves<D>> narrowed(D, hn::Vec<D> value) {
  constexpr int kBelow = 16;
  constexpr std::uint32_t kBelowHalf = 0x7fff, kQuiet = 0x40;
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<kBelow>(bits), hn::Set(words, 1));
  const auto near = hn::ShiftRight<kBelow>(hn::Add(hn::Add(bits, hn::Set(words, kBelowHalf)), odd));
  const auto nan = hn::Or(hn::ShiftRight<kBelow>(bits), hn::Set(words, kQuiet));
  const auto chosen = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), nan, near);
  return hn::DemoteTo(Halves<D>(), hn::BitCast(hn::RebindToSigned<D>(), chosen));
}

/// As many numbers as D has lanes, from any address.
template <typename D>
HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <typename D>
HWY_INLINE hn::Vec<D> load(D d, const base::BF16* from) {
  return widened(d, hn::LoadU(Halves<D>(), reinterpret_cast<const std::uint16_t*>(from)));
}

template <typename D>
HWY_INLINE void store(D d, hn::Vec<D> value, hn::TFromD<D>* to) {
  hn::StoreU(value, d, to);
}
template <typename D>
HWY_INLINE void store(D d, hn::Vec<D> value, base::BF16* to) {
  hn::StoreU(narrowed(d, value), Halves<D>(), reinterpret_cast<std::uint16_t*>(to));
}

/// store() past the caches, to an address that is a multiple of the vector's bytes there; of short
/// vectors, which no instruction writes so, store().
template <typename D, typename T>
HWY_INLINE void stream(D d, hn::Vec<D> value, T* to) {
  constexpr std::size_t kLeastBytes = 16;
  if constexpr (hn::MaxLanes(D()) * sizeof(T) < kLeastBytes) {
    store(d, value, to);
  } else if constexpr (std::is_same_v<T, base::BF16>) {
    hn::Stream(narrowed(d, value), Halves<D>(), reinterpret_cast<std::uint16_t*>(to));
  } else {
    hn::Stream(value, d, to);
  }
}

/// The first `count` numbers of a vector; no others are touched in memory. Zero in those behind.
template <typename D>
HWY_INLINE hn::Vec<D> load_first(D d, std::int64_t count, const hn::TFromD<D>* from) {
  return Tail<D>(d, count).load(from);
}
template <typename D>
HWY_INLINE hn::Vec<D> load_first(D d, std::int64_t count, const base::BF16* from) {
  HWY_ALIGN base::BF16 numbers[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy_n(from, count, numbers);
  return load(d, numbers);
}

template <typename D>
HWY_INLINE void store_first(D d, std::int64_t count, hn::Vec<D> value, hn::TFromD<D>* to) {
  Tail<D>(d, count).store(value, to);
}
template <typename D>
HWY_INLINE void store_first(D d, std::int64_t count, hn::Vec<D> value, base::BF16* to) {
  HWY_ALIGN base::BF16 numbers[HWY_MAX_BYTES / sizeof(float)];
  store(d, value, numbers);
  std::copy_n(numbers, count, to);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
