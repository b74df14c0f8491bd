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

/// Bound of abs(x) for the polynomial of f32.
constexpr float kNearZero = 87.0F;
/// 2^n and e^r - 1 of numbers that are n * log(2) + r with n whole and abs(r) <= log(2) / 2, of
/// which each has abs(x) < kNearZero.
template <typename D>
struct ExpParts {
  hn::Vec<D> r, rest;                    ///< rest: (e^r - 1 - r) / r^2
  hn::Vec<hn::RebindToSigned<D>> power;  ///< n, where f32 has its exponent

  HWY_INLINE ExpParts(D d, hn::Vec<D> x) {
    // The sum has no digits behind the point, and n in its lowest bits.
    const auto shift = hn::Set(d, 12582912.0F);  // 1.5 * 2^23
    const auto sum = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
    const auto n = hn::Sub(sum, shift);
    // log(2) in two parts; products of n and the first are exact.
    r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125F), x);
    r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6F), r);
    // Fitted so that the error relative to e^r is at most 2^-28.
    rest = hn::MulAdd(r, hn::Set(d, 0.0013814539F), hn::Set(d, 0.008368745F));
    rest = hn::MulAdd(rest, r, hn::Set(d, 0.04166839F));
    rest = hn::MulAdd(rest, r, hn::Set(d, 0.16666521F));
    rest = hn::MulAdd(rest, r, hn::Set(d, 0.49999994F));
    power = hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), sum));
  }
  HWY_INLINE hn::Vec<D> less_one() const { return hn::MulAdd(rest, hn::Mul(r, r), r); }
};

/// e^x for f32 numbers of which each has abs(x) < kNearZero.
template <typename D>
HWY_INLINE hn::Vec<D> exp_near_zero(D d, hn::Vec<D> x) {
  const ExpParts<D> parts(d, x);
  const auto power = hn::Add(parts.less_one(), hn::Set(d, 1.0F));
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, power), parts.power));
}

/// e^x - 1 for f32 numbers that are not above 0, within 2 ulp; NaN stays.
template <typename D>
HWY_INLINE hn::Vec<D> expm1_below_zero(D d, hn::Vec<D> x) {
  const ExpParts<D> parts(d, hn::Max(x, hn::Set(d, -kNearZero)));
  const auto one = hn::Set(d, 1.0F);
  const hn::RebindToSigned<D> di;
  const auto power = hn::BitCast(d, hn::Add(hn::BitCast(di, one), parts.power));
  const auto y = hn::MulAdd(parts.less_one(), power, hn::Sub(power, one));
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, hn::Zero(d))), x, y);
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
