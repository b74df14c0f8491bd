// SPDX-License-Identifier: Apache-2.0
// The exponential function of vectors, for SIMD kernels: Highway's polynomial, within 1 ulp;
// infinity, zero and NaN as in the C library. f32 numbers whose powers are far from both ends of
// the range, which is most of them, have a polynomial of their own that needs half the operations,
// within 1.01 ulp where products and sums are fused.
// Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"

// As elements-inl.h: read once per instruction set.
#if HWY_ONCE
#pragma once
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// e^x for f32 numbers of which each has abs(x) < kNearZero: 2^n * e^r with n whole and
/// abs(r) <= log(2) / 2.
constexpr float kNearZero = 87.0F;
template <typename D>
HWY_INLINE hn::Vec<D> exp_near_zero(D d, hn::Vec<D> x) {
  // The sum has no digits behind the point, and n in its lowest bits.
  const auto shift = hn::Set(d, 12582912.0F);  // 1.5 * 2^23
  const auto sum = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
  const auto n = hn::Sub(sum, shift);
  // log(2) in two parts; products of n and the first are exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125F), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6F), r);
  // (e^r - 1 - r) / r^2, fitted so that the error relative to e^r is at most 2^-28.
  auto rest = hn::MulAdd(r, hn::Set(d, 0.0013814539F), hn::Set(d, 0.008368745F));
  rest = hn::MulAdd(rest, r, hn::Set(d, 0.04166839F));
  rest = hn::MulAdd(rest, r, hn::Set(d, 0.16666521F));
  rest = hn::MulAdd(rest, r, hn::Set(d, 0.49999994F));
  const auto power = hn::Add(hn::MulAdd(rest, hn::Mul(r, r), r), hn::Set(d, 1.0F));
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, sum));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, power), exponent));
}

/// e^x; no number's result depends on its neighbours.
template <typename D>
HWY_INLINE hn::Vec<D> exp_of(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const auto general = [=]() HWY_ATTR {
    const auto most = hn::Set(d, std::log(std::numeric_limits<T>::max()));
    const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
    auto y = hn::Exp(d, hn::Min(x, most));
    y = hn::IfThenElse(hn::Gt(x, most), infinity, y);
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  };
  if constexpr (sizeof(T) == sizeof(float)) {
    const auto near_zero = hn::Lt(hn::Abs(x), hn::Set(d, kNearZero));
    const auto y = exp_near_zero(d, x);
    if (HWY_LIKELY(hn::AllTrue(d, near_zero))) return y;
    return hn::IfThenElse(near_zero, y, general());
  } else {
    return general();
  }
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
