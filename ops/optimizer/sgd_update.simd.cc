// SPDX-License-Identifier: Apache-2.0
// sgd_update with the widest vectors of the machine. The same operations in the same order as the
// reference, each rounded by itself (no fused multiply-add), so the bits are equal.
#include "ops/support/flat_kernel.h"
#include "ops/support/update.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer/sgd_update.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

/// One step of the update; its numbers are read once per weight.
template <typename T>
struct SgdElements : ElementsCall {
  using Number = Computed<T>;
  const T* weight = input<T>(0);
  const T* gradient = input<T>(1);
  const T* velocity = input<T>(2);
  Number rate = static_cast<Number>(*input<T>(3));
  Number count = static_cast<Number>(*input<T>(4));
  T* new_weight = output<T>(0);
  T* new_velocity = output<T>(1);
  Number momentum = static_cast<Number>(call.params.real("momentum"));
  Number decay = static_cast<Number>(call.params.real("wd"));
  Number limit = static_cast<Number>(call.params.real("clip_gradient"));

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    const auto w = load(d, weight + i);
    auto g = hn::Div(load(d, gradient + i), hn::Set(d, count));
    if (limit > Number{0}) {
      const auto high = hn::Set(d, limit);
      const auto low = hn::Neg(high);
      g = hn::IfThenElse(hn::Gt(g, high), high, g);
      g = hn::IfThenElse(hn::Lt(g, low), low, g);
    }
    g = hn::Add(g, hn::Mul(w, hn::Set(d, decay)));
    const auto v = hn::Add(hn::Mul(load(d, velocity + i), hn::Set(d, momentum)), g);
    store(d, hn::Sub(w, hn::Mul(v, hn::Set(d, rate))), new_weight + i);
    store(d, v, new_velocity + i);
  }
};

base::Status run_sgd_update(const OpCall& call, const KernelContext& context) {
  return run_elements<SgdElements>(call, context);
}

base::Status run_multi_sgd_update(const OpCall& call, const KernelContext& context) {
  return for_each_weight(3, call, context, [&](auto inputs, auto outputs) {
    KernelContext one = context;
    one.inputs = inputs;
    one.outputs = outputs;
    return run_elements<SgdElements>(call, one);
  });
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_sgd_update);
HWY_EXPORT(run_multi_sgd_update);

std::span<const BackendKernel> kernels_sgd_update_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"sgd_update", flat_kernel("simd",
                                 [](const OpCall& call, const KernelContext& context) {
                                   return HWY_DYNAMIC_DISPATCH(run_sgd_update)(call, context);
                                 })},
      {"multi_sgd_update",
       flat_kernel("simd", [](const OpCall& call, const KernelContext& context) {
         return HWY_DYNAMIC_DISPATCH(run_multi_sgd_update)(call, context);
       })}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
