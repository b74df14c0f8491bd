// SPDX-License-Identifier: Apache-2.0
// add of equal shapes with the widest vectors of the machine: the sums of the gradient tree.
// Bits equal the reference's: one rounding per element (two when adding to the output).
#include "ops/support/chunks.h"
#include "ops/support/flat_kernel.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/math/add.simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// out = a + b, or out = out + (a + b).
template <typename T>
void add_range(const T* a, const T* b, T* out, std::int64_t count, bool accumulate) {
  const hn::ScalableTag<T> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= count; i += step) {
    auto sum = hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
    if (accumulate) sum = hn::Add(hn::LoadU(d, out + i), sum);
    hn::StoreU(sum, d, out + i);
  }
  for (; i < count; ++i) {
    const T sum = a[i] + b[i];
    out[i] = accumulate ? out[i] + sum : sum;
  }
}

void add_range_f32(const float* a, const float* b, float* out, std::int64_t count,
                   bool accumulate) {
  add_range(a, b, out, count, accumulate);
}
void add_range_f64(const double* a, const double* b, double* out, std::int64_t count,
                   bool accumulate) {
  add_range(a, b, out, count, accumulate);
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(add_range_f32);
HWY_EXPORT(add_range_f64);

base::Status accepts(const OpCall& call) {
  if (call.inputs[0].shape == call.inputs[1].shape) return {};
  return base::error(base::Errc::unimplemented, "shapes {} and {} differ",
                     call.inputs[0].shape.to_string(), call.inputs[1].shape.to_string());
}

base::Status run(const OpCall& call, const KernelContext& context) {
  const bool accumulate = !call.modes.empty() && call.modes[0] == WriteMode::add;
  const base::TensorView& out = context.outputs[0];
  const auto element = static_cast<std::int64_t>(base::dtype_size(out.dtype));
  parallel_ranges(context, out.bytes() / element, [&](auto begin, auto end) {
    if (out.dtype == base::DType::f32) {
      HWY_DYNAMIC_DISPATCH(add_range_f32)
      (context.inputs[0].as<float>() + begin, context.inputs[1].as<float>() + begin,
       out.as<float>() + begin, end - begin, accumulate);
    } else {
      HWY_DYNAMIC_DISPATCH(add_range_f64)
      (context.inputs[0].as<double>() + begin, context.inputs[1].as<double>() + begin,
       out.as<double>() + begin, end - begin, accumulate);
    }
  });
  return {};
}

}  // namespace

std::span<const BackendKernel> kernels_add_simd() {
  static const std::vector<BackendKernel> kernels = {{"add", flat_kernel("simd", accepts, run)}};
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
