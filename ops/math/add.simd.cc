// SPDX-License-Identifier: Apache-2.0
// add of equal shapes with the widest vectors of the machine: the sums of the gradient tree.
// Bits equal the reference's: one rounding per element (two when adding to the output).
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/math/add.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

/// lhs + rhs.
template <typename T>
struct AddElements : ElementsCall {
  const T* lhs = input<T>(0);
  const T* rhs = input<T>(1);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    out.store(d, hn::Add(hn::LoadU(d, lhs + i), hn::LoadU(d, rhs + i)), i);
  }
};

base::Status run_add(const OpCall& call, const KernelContext& context) {
  return run_elements<AddElements>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_add);

namespace {

base::Status run(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_add)(call, context);
}

base::Status accepts(const OpCall& call) {
  if (call.inputs[0].shape == call.inputs[1].shape) return {};
  return base::error(base::Errc::unimplemented, "shapes {} and {} differ",
                     call.inputs[0].shape.to_string(), call.inputs[1].shape.to_string());
}

}  // namespace

std::span<const BackendKernel> kernels_add_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"add", flat_kernel("simd", run, accepts)},
      {"add_elemwise", flat_kernel("simd", run, accepts)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
