// SPDX-License-Identifier: Apache-2.0
// exp with the widest vectors of the machine. Highway's polynomial, within 1 ulp; infinity, zero
// and NaN as in the C library.
#include <cmath>
#include <limits>

#include "ops/support/chunks.h"
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/math/exp.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements [i, count) in steps of the tag's lanes, as many as fit; the first element left over.
/// `most` is the logarithm of the largest number.
template <typename D, typename T = hn::TFromD<D>>
std::int64_t exp_vectors(D d, const T* x, T* y, std::int64_t i, std::int64_t count, T most,
                         bool accumulate) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto upper = hn::Set(d, most);
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  for (; i + step <= count; i += step) {
    const auto v = hn::LoadU(d, x + i);
    auto e = hn::Exp(d, hn::Min(v, upper));
    e = hn::IfThenElse(hn::Gt(v, upper), infinity, e);
    e = hn::IfThenElse(hn::Eq(v, v), e, v);
    if (accumulate) e = hn::Add(hn::LoadU(d, y + i), e);
    hn::StoreU(e, d, y + i);
  }
  return i;
}

template <typename T>
void exp_range(const T* x, T* y, std::int64_t count, T most, bool accumulate) {
  const std::int64_t rest = exp_vectors(hn::ScalableTag<T>(), x, y, 0, count, most, accumulate);
  exp_vectors(hn::CappedTag<T, 1>(), x, y, rest, count, most, accumulate);
}

void exp_range_f32(const float* x, float* y, std::int64_t count, float most, bool accumulate) {
  exp_range(x, y, count, most, accumulate);
}
void exp_range_f64(const double* x, double* y, std::int64_t count, double most, bool accumulate) {
  exp_range(x, y, count, most, accumulate);
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(exp_range_f32);
HWY_EXPORT(exp_range_f64);

template <typename T, typename Range>
void run_typed(const KernelContext& context, bool accumulate, Range range) {
  const T* x = context.inputs[0].as<T>();
  T* y = context.outputs[0].as<T>();
  const T most = std::log(std::numeric_limits<T>::max());
  const auto count = static_cast<std::int64_t>(context.outputs[0].bytes() / sizeof(T));
  parallel_ranges(context, count, [&](auto begin, auto end) {
    range(x + begin, y + begin, end - begin, most, accumulate);
  });
}

base::Status run(const OpCall& call, const KernelContext& context) {
  const bool accumulate = !call.modes.empty() && call.modes[0] == WriteMode::add;
  if (context.outputs[0].dtype == base::DType::f32) {
    run_typed<float>(context, accumulate, HWY_DYNAMIC_DISPATCH(exp_range_f32));
  } else {
    run_typed<double>(context, accumulate, HWY_DYNAMIC_DISPATCH(exp_range_f64));
  }
  return {};
}

}  // namespace

std::span<const BackendKernel> kernels_exp_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"exp", flat_kernel(
                  "simd", [](const OpCall&) { return base::Status(); }, run)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
