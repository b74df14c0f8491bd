// SPDX-License-Identifier: Apache-2.0
// add_n with the widest vectors of the machine. Bits equal the reference's.
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/math/add_n.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

template <typename T>
struct AddNElements : ElementsCall {
  SummedInputs<T> sum{context, context.inputs.size()};
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    out.store(d, sum.load(d, i), i);
  }
};

base::Status run_add_n(const OpCall& call, const KernelContext& context) {
  return run_elements<AddNElements>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_add_n);

namespace {

base::Status run(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_add_n)(call, context);
}

base::Status accepts(const OpCall& call) {
  if (call.inputs.size() <= kSummedMost) return {};
  return base::error(base::Errc::unimplemented, "the sum of {} tensors", call.inputs.size());
}

}  // namespace

std::span<const BackendKernel> kernels_add_n_simd() {
  static const std::vector<BackendKernel> kernels = {{"add_n", flat_kernel("simd", run, accepts)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
