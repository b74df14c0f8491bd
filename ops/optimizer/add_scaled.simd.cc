// SPDX-License-Identifier: Apache-2.0
// add_scaled with the widest vectors of the machine. Bits equal the reference's.
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer/add_scaled.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

template <typename T>
struct AddScaledElements : ElementsCall {
  const T* lhs = input<T>(0);
  const T* rhs = input<T>(1);
  Computed<T> factor = static_cast<Computed<T>>(*input<T>(2));
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto product = hn::Mul(load(d, rhs + i), hn::Set(d, factor));
    out.store(d, hn::Add(load(d, lhs + i), product), i);
  }
};

base::Status run_add_scaled(const OpCall& call, const KernelContext& context) {
  return run_elements<AddScaledElements>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_add_scaled);

namespace {

base::Status run(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_add_scaled)(call, context);
}

}  // namespace

std::span<const BackendKernel> kernels_add_scaled_simd() {
  static const std::vector<BackendKernel> kernels = {{"add_scaled", flat_kernel("simd", run)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
