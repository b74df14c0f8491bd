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

#ifndef TROUPE_OPS_EXP_RUN_ONCE
#define TROUPE_OPS_EXP_RUN_ONCE
namespace troupe::ops {
/// Where a run reads and writes.
template <typename T>
struct ExpRun {
  const T* x;
  T* y;
  T most;  ///< the logarithm of the largest number
  bool accumulate;
};
}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements [i, end) in steps of the tag's lanes, as many as fit; the first element left over.
template <typename D, typename T>
std::int64_t exp_vectors(D d, const ExpRun<T>& run, std::int64_t i, std::int64_t end) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, run.most);
  const auto infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  for (; i + step <= end; i += step) {
    const auto x = hn::LoadU(d, run.x + i);
    auto y = hn::Exp(d, hn::Min(x, most));
    y = hn::IfThenElse(hn::Gt(x, most), infinity, y);
    y = hn::IfThenElse(hn::Eq(x, x), y, x);
    if (run.accumulate) y = hn::Add(hn::LoadU(d, run.y + i), y);
    hn::StoreU(y, d, run.y + i);
  }
  return i;
}

template <typename T>
void exp_range(const ExpRun<T>& run, std::int64_t begin, std::int64_t end) {
  const std::int64_t rest = exp_vectors(hn::ScalableTag<T>(), run, begin, end);
  exp_vectors(hn::CappedTag<T, 1>(), run, rest, end);
}

void exp_range_f32(const ExpRun<float>& run, std::int64_t begin, std::int64_t end) {
  exp_range(run, begin, end);
}
void exp_range_f64(const ExpRun<double>& run, std::int64_t begin, std::int64_t end) {
  exp_range(run, begin, end);
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
void run_typed(const OpCall& call, const KernelContext& context, Range range) {
  const bool accumulate = !call.modes.empty() && call.modes[0] == WriteMode::add;
  const ExpRun<T> run{context.inputs[0].as<T>(), context.outputs[0].as<T>(),
                      std::log(std::numeric_limits<T>::max()), accumulate};
  parallel_ranges(context, context.outputs[0].elements(),
                  [&](auto begin, auto end) { range(run, begin, end); });
}

base::Status run(const OpCall& call, const KernelContext& context) {
  if (context.outputs[0].dtype == base::DType::f32) {
    run_typed<float>(call, context, HWY_DYNAMIC_DISPATCH(exp_range_f32));
  } else {
    run_typed<double>(call, context, HWY_DYNAMIC_DISPATCH(exp_range_f64));
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
