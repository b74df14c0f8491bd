// SPDX-License-Identifier: Apache-2.0
// By comparison, since the maximum of x86 drops NaN.
#include "ops/support/relu.h"

#include "ops/support/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/relu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void clear_negative(T* data, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<float> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin;
  for (; i + step <= end; i += step) {
    const auto x = load(d, data + i);
    store(d, hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x), data + i);
  }
  for (; i < end; ++i) {
    if (static_cast<float>(data[i]) <= 0.0F) data[i] = T{};
  }
}

void clear_f32(float* data, std::int64_t begin, std::int64_t end) {
  clear_negative(data, begin, end);
}
void clear_bf16(base::BF16* data, std::int64_t begin, std::int64_t end) {
  clear_negative(data, begin, end);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(clear_f32);
HWY_EXPORT(clear_bf16);

void relu_in_place(const KernelContext& context, const base::TensorView& data) {
  const auto count = data.bytes() / static_cast<std::int64_t>(base::dtype_size(data.dtype));
  parallel_ranges(context, count, [&](std::int64_t begin, std::int64_t end) {
    if (data.dtype == base::DType::bf16) {
      HWY_DYNAMIC_DISPATCH(clear_bf16)(data.as<base::BF16>(), begin, end);
    } else {
      HWY_DYNAMIC_DISPATCH(clear_f32)(data.as<float>(), begin, end);
    }
  });
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
