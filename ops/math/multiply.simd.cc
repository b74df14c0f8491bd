// SPDX-License-Identifier: Apache-2.0
// multiply with the widest vectors of the machine, with broadcasting: along the innermost axis an
// operand advances or repeats. Bits equal the reference's.
#include "ops/support/broadcast.h"
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#ifndef TROUPE_MULTIPLY_ALIKE
#define TROUPE_MULTIPLY_ALIKE
namespace troupe::ops {

/// Nothing repeats: as many elements everywhere, in one order.
inline bool alike(const OpCall& call) {
  const std::int64_t elements = call.outputs[0].shape.elements();
  return call.inputs[0].shape.elements() == elements && call.inputs[1].shape.elements() == elements;
}

}  // namespace troupe::ops
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/math/multiply.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

/// lhs * rhs.
template <typename T>
struct MultiplyElements : ElementsCall {
  const T* lhs = input<T>(0);
  const T* rhs = input<T>(1);
  ElementsOutput<T> out{{call, context}};

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    out.store(d, hn::Mul(load(d, lhs + i), load(d, rhs + i)), i);
  }
};

/// A run of numbers times one number.
template <typename T>
struct ScaledRun {
  const T* from;
  Computed<T> factor;
  T* to;
  bool add;

  template <typename D>
  HWY_INLINE void operator()(D d, std::int64_t i) const {
    auto value = hn::Mul(load(d, from + i), hn::Set(d, factor));
    if (add) value = hn::Add(load(d, to + i), value);
    store(d, value, to + i);
  }
};

base::Status run_scaled(const OpCall& call, const KernelContext& context) {
  const BroadcastWalk walk =
      broadcast_walk(call.outputs[0].shape, call.inputs[0].shape, call.inputs[1].shape);
  const bool left = walk.stride_a[static_cast<std::size_t>(walk.rank - 1)] == 1;
  const bool add = !call.modes.empty() && call.modes[0] == WriteMode::add;
  return with_memory(context.outputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* a = context.inputs[0].as<T>();
    const T* b = context.inputs[1].as<T>();
    T* out = context.outputs[0].as<T>();
    const auto run = [&](std::int64_t o, std::int64_t i, std::int64_t j, std::int64_t count) {
      const auto factor = static_cast<Computed<T>>(left ? b[j] : a[i]);
      const ScaledRun<T> scaled{left ? a + i : b + j, factor, out + o, add};
      run_range<T>(scaled, 0, count);
    };
    parallel_ranges(context, context.outputs[0].elements(),
                    [&](auto begin, auto end) { for_each_run(walk, begin, end, run); });
    return base::Status();
  });
}

base::Status run_multiply(const OpCall& call, const KernelContext& context) {
  return alike(call) ? run_elements<MultiplyElements>(call, context) : run_scaled(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(run_multiply);

namespace {

base::Status run(const OpCall& call, const KernelContext& context) {
  return HWY_DYNAMIC_DISPATCH(run_multiply)(call, context);
}

base::Status accepts(const OpCall& call) {
  if (alike(call)) return {};
  const base::Shape &lhs = call.inputs[0].shape, &rhs = call.inputs[1].shape;
  const BroadcastWalk walk = broadcast_walk(call.outputs[0].shape, lhs, rhs);
  const auto inner = static_cast<std::size_t>(walk.rank - 1);
  if (walk.stride_a[inner] + walk.stride_b[inner] == 1) return {};
  return base::error(base::Errc::unimplemented, "shapes {} and {} differ elsewhere",
                     lhs.to_string(), rhs.to_string());
}

}  // namespace

std::span<const BackendKernel> kernels_multiply_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"multiply", flat_kernel("simd", run, accepts)},
      {"multiply_elemwise", flat_kernel("simd", run, accepts)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
