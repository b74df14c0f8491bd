// SPDX-License-Identifier: Apache-2.0
// By comparison, since the maximum of x86 drops NaN.
#include "ops/support/relu.h"

#include "ops/support/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/relu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void clear_negative(float* data, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin;
  for (; i + step <= end; i += step) {
    const auto x = hn::LoadU(d, data + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x), d, data + i);
  }
  for (; i < end; ++i) data[i] = data[i] <= 0.0F ? 0.0F : data[i];
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(clear_negative);

void relu_in_place(const KernelContext& context, float* data, std::int64_t count) {
  parallel_ranges(context, count, [=](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(clear_negative)(data, begin, end);
  });
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
