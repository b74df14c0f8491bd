// SPDX-License-Identifier: Apache-2.0
// exp with the widest vectors of the machine; exp-inl.h says how exact.
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/math/exp.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"
#include "ops/support/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

/// e^data.
template <typename T>
struct ExpElements : ElementsCall {
  const T* data = input<T>(0);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    out.store(d, exp_of(d, load(d, data + i)), i);
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
