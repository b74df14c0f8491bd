// SPDX-License-Identifier: Apache-2.0
// sgd_update with the widest vectors of the machine. The same operations in the same order as the
// reference, each rounded by itself (no fused multiply-add), so the bits are equal.
#include "ops/support/chunks.h"
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer/sgd_update.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TROUPE_OPS_SGD_STEP_ONCE
#define TROUPE_OPS_SGD_STEP_ONCE
namespace troupe::ops {
/// One run of the update: addresses of its tensors and the numbers of the step.
template <typename T>
struct SgdStep {
  const T* weight;
  const T* gradient;
  const T* velocity;
  T* new_weight;
  T* new_velocity;
  T rate, count, momentum, decay, limit;
};
}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements [i, end) in steps of the tag's lanes, as many as fit; the first element left over.
template <typename D, typename T>
std::int64_t sgd_vectors(D d, const SgdStep<T>& s, std::int64_t i, std::int64_t end) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto count = hn::Set(d, s.count);
  const auto decay = hn::Set(d, s.decay);
  const auto momentum = hn::Set(d, s.momentum);
  const auto rate = hn::Set(d, s.rate);
  const auto high = hn::Set(d, s.limit);
  const auto low = hn::Neg(high);
  for (; i + step <= end; i += step) {
    const auto weight = hn::LoadU(d, s.weight + i);
    auto g = hn::Div(hn::LoadU(d, s.gradient + i), count);
    if (s.limit > T{0}) {
      g = hn::IfThenElse(hn::Gt(g, high), high, g);
      g = hn::IfThenElse(hn::Lt(g, low), low, g);
    }
    g = hn::Add(g, hn::Mul(weight, decay));
    const auto v = hn::Add(hn::Mul(hn::LoadU(d, s.velocity + i), momentum), g);
    hn::StoreU(hn::Sub(weight, hn::Mul(v, rate)), d, s.new_weight + i);
    hn::StoreU(v, d, s.new_velocity + i);
  }
  return i;
}

template <typename T>
void sgd_range(const SgdStep<T>& s, std::int64_t begin, std::int64_t end) {
  const std::int64_t rest = sgd_vectors(hn::ScalableTag<T>(), s, begin, end);
  sgd_vectors(hn::CappedTag<T, 1>(), s, rest, end);
}

void sgd_range_f32(const SgdStep<float>& s, std::int64_t begin, std::int64_t end) {
  sgd_range(s, begin, end);
}
void sgd_range_f64(const SgdStep<double>& s, std::int64_t begin, std::int64_t end) {
  sgd_range(s, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(sgd_range_f32);
HWY_EXPORT(sgd_range_f64);

template <typename T>
SgdStep<T> step_of(const OpCall& call, const KernelContext& context) {
  return {.weight = context.inputs[0].as<T>(),
          .gradient = context.inputs[1].as<T>(),
          .velocity = context.inputs[2].as<T>(),
          .new_weight = context.outputs[0].as<T>(),
          .new_velocity = context.outputs[1].as<T>(),
          .rate = *context.inputs[3].as<T>(),
          .count = *context.inputs[4].as<T>(),
          .momentum = static_cast<T>(call.params.real("momentum")),
          .decay = static_cast<T>(call.params.real("wd")),
          .limit = static_cast<T>(call.params.real("clip_gradient"))};
}

base::Status run(const OpCall& call, const KernelContext& context) {
  const std::int64_t elements = context.outputs[0].elements();
  if (context.outputs[0].dtype == base::DType::f32) {
    const auto step = step_of<float>(call, context);
    parallel_ranges(context, elements, [&](auto begin, auto end) {
      HWY_DYNAMIC_DISPATCH(sgd_range_f32)(step, begin, end);
    });
  } else {
    const auto step = step_of<double>(call, context);
    parallel_ranges(context, elements, [&](auto begin, auto end) {
      HWY_DYNAMIC_DISPATCH(sgd_range_f64)(step, begin, end);
    });
  }
  return {};
}

}  // namespace

std::span<const BackendKernel> kernels_sgd_update_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"sgd_update", flat_kernel(
                         "simd", [](const OpCall&) { return base::Status(); }, run)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
