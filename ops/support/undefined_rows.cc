// SPDX-License-Identifier: Apache-2.0
// One look at every number, with the widest vectors of the machine.
#include "ops/support/undefined_rows.h"

#include <algorithm>
#include <limits>

#include "ops/support/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/undefined_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

bool is_undefined(const float* row, std::int64_t classes) {
  constexpr float kMost = std::numeric_limits<float>::max();
  bool all_fit = true;
  bool any_counts = false;
  std::int64_t i = 0;
  const auto look = [&](auto d) HWY_ATTR {
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    const auto most = hn::Set(d, kMost);
    const auto least = hn::Set(d, -kMost);
    auto fits = hn::Eq(most, most);
    auto counts = hn::Lt(most, most);
    for (; i + step <= classes; i += step) {
      const auto x = hn::LoadU(d, row + i);
      fits = hn::And(fits, hn::Le(x, most));  // false for NaN
      counts = hn::Or(counts, hn::Ge(x, least));
    }
    all_fit = all_fit && hn::AllTrue(d, fits);
    any_counts = any_counts || !hn::AllFalse(d, counts);
  };
  look(hn::ScalableTag<float>());
  look(hn::CappedTag<float, 1>());
  return !all_fit || !any_counts;
}

void mark_range(const Rows& rows, std::int64_t begin, std::int64_t end, const float* data,
                std::uint8_t* marks) {
  for (std::int64_t r = begin; r < end; ++r) {
    marks[r] = is_undefined(data + r * rows.classes, rows.classes) ? 1 : 0;
  }
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(mark_range);

void mark_undefined_rows(const KernelContext& context, const Rows& rows, const float* data,
                         std::uint8_t* marks) {
  parallel_ranges(
      context, rows.count,
      [&](auto begin, auto end) {
        HWY_DYNAMIC_DISPATCH(mark_range)(rows, begin, end, data, marks);
      },
      std::max<std::int64_t>(1, kChunkElements / std::max<std::int64_t>(rows.classes, 1)));
}

void clear_marked_rows(const Rows& rows, const std::uint8_t* marks, float* data) {
  for (std::int64_t r = 0; r < rows.count; ++r) {
    if (marks[r] == 0) continue;
    std::fill_n(data + r * rows.classes, rows.classes, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
