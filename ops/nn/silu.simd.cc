// SPDX-License-Identifier: Apache-2.0
// silu and its gradient of f32 with the widest vectors of the machine: the reference's formulas.
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/silu.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"
#include "ops/support/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

/// data / (1 + e^-data).
template <typename T>
struct SiluElements : ElementsCall {
  const T* data = input<T>(0);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto x = load(d, data + i);
    out.store(d, hn::Div(x, hn::Add(hn::Set(d, Computed<T>{1}), exp_of(d, hn::Neg(x)))), i);
  }
};

/// gradient * s * (1 + data * (1 - s)), s the sigmoid of data.
template <typename T>
struct SiluBackwardElements : ElementsCall {
  const T* gradient = input<T>(0);
  const T* data = input<T>(1);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto x = load(d, data + i), one = hn::Set(d, Computed<T>{1});
    const auto s = hn::Div(one, hn::Add(one, exp_of(d, hn::Neg(x))));
    const auto slope = hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one));
    out.store(d, hn::Mul(load(d, gradient + i), slope), i);
  }
};

base::Status run_silu(const OpCall& call, const KernelContext& context) {
  return run_f32_elements<SiluElements>(call, context);
}
base::Status run_silu_backward(const OpCall& call, const KernelContext& context) {
  return run_f32_elements<SiluBackwardElements>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_silu);
HWY_EXPORT(run_silu_backward);

namespace {

base::Status run_forward(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_silu)(call, context);
}
base::Status run_backward(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_silu_backward)(call, context);
}

}  // namespace

std::span<const BackendKernel> kernels_silu_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"silu", flat_kernel("simd:exp", run_forward, not_f64)},
      {"silu_backward", flat_kernel("simd:exp", run_backward, not_f64)},
  };
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
