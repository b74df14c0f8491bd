// SPDX-License-Identifier: Apache-2.0
// relu and its gradient with the widest vectors of the machine. Bits equal the reference's. By
// comparison, since the maximum of x86 drops NaN.
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/activation.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

/// data where it is not <= 0.
template <typename T>
struct ReluElements : ElementsCall {
  const T* data = input<T>(0);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto x = load(d, data + i);
    out.store(d, hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x), i);
  }
};

/// The sum of the gradients where output is not <= 0.
template <typename T>
struct ReluBackwardElements : ElementsCall {
  SummedInputs<T> gradient{context, context.inputs.size() - 1};
  const T* value = input<T>(context.inputs.size() - 1);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto ended = hn::Le(load(d, value + i), hn::Zero(d));
    out.store(d, hn::IfThenZeroElse(ended, gradient.load(d, i)), i);
  }
};

base::Status run_relu(const OpCall& call, const KernelContext& context) {
  return run_elements<ReluElements>(call, context);
}
base::Status run_relu_backward(const OpCall& call, const KernelContext& context) {
  return run_elements<ReluBackwardElements>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_relu);
HWY_EXPORT(run_relu_backward);

namespace {

base::Status run_forward(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_relu)(call, context);
}
base::Status run_backward(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_relu_backward)(call, context);
}

base::Status accepts(const OpCall& call) {
  if (call.params.text("act_type") == "relu") return {};
  return base::error(base::Errc::unimplemented, "only relu");
}

}  // namespace

std::span<const BackendKernel> kernels_activation_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"activation", flat_kernel("simd", run_forward, accepts)},
      {"activation_backward", flat_kernel("simd", run_backward, accepts)},
  };
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
