// SPDX-License-Identifier: Apache-2.0
// exp with the widest vectors of the machine. Highway's polynomial, within 1 ulp; infinity, zero
// and NaN as in the C library.
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

/// e^data.
template <typename T>
struct ExpElements : ElementsCall {
  const T* data = input<T>(0);
  ElementsOutput<T> out{{call, context}};
  T largest_logarithm = std::log(std::numeric_limits<T>::max());

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto most = hn::Set(d, largest_logarithm);
    const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
    const auto x = hn::LoadU(d, data + i);
    auto y = hn::Exp(d, hn::Min(x, most));
    y = hn::IfThenElse(hn::Gt(x, most), infinity, y);
    y = hn::IfThenElse(hn::Eq(x, x), y, x);
    out.store(d, y, i);
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
