// SPDX-License-Identifier: Apache-2.0
// exp with the widest vectors of the machine: Highway's polynomial, within 1 ulp; infinity, zero
// and NaN as in the C library. f32 numbers whose powers are far from both ends of the range, which
// is most of them, have a polynomial of their own that needs half the operations, within 1.01
// ulp where products and sums are fused.
#include <cmath>
#include <limits>

#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/math/exp.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "hwy/contrib/math/math-inl.h"
#include "ops/support/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

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

/// e^data.
template <typename T>
struct ExpElements : ElementsCall {
  const T* data = input<T>(0);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    out.store(d, exp_of(d, hn::LoadU(d, data + i)), i);
  }
};

base::Status run_exp(const OpCall& call, const KernelContext& context) {
  return run_elements<ExpElements>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_exp);

std::span<const BackendKernel> kernels_exp_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"exp", flat_kernel("simd", [](const OpCall& call, const KernelContext& context) {
         return HWY_DYNAMIC_DISPATCH(run_exp)(call, context);
       })}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
