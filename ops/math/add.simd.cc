// SPDX-License-Identifier: Apache-2.0
// add_n, and add of equal shapes, with the widest vectors of the machine.
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

/// The sum of all inputs, in their order.
template <typename T>
struct AddElements : ElementsCall {
  SummedInputs<T> sum{context, context.inputs.size()};
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    out.store(d, sum.load(d, i), i);
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

base::Status accepts_n(const OpCall& call) {
  if (call.inputs.size() <= kSummedMost) return {};
  return base::error(base::Errc::unimplemented, "the sum of {} tensors", call.inputs.size());
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
      {"add_elemwise", flat_kernel("simd", run, accepts)},
      {"add_n", flat_kernel("simd", run, accepts_n)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
