// SPDX-License-Identifier: Apache-2.0
// Tiles of sums in registers: some rows of x times some of y.
#include "ops/support/dot_rows.h"

#include <algorithm>

// Tiles of registers are arrays of vectors, which scalable ones cannot form.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/dot_rows.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<float>;
using Vector = hn::Vec<Lanes>;

// As many sums as the registers hold beside what is multiplied.
#if HWY_TARGET <= HWY_AVX3
constexpr int kTileRows = 8, kTileColumns = 3;
#else
constexpr int kTileRows = 4, kTileColumns = 2;
#endif

/// Adds the products of lanes at `i`; load(from) gives those of a row.
template <int kRows, int kColumns, typename Load>
HWY_INLINE void add_products(const DotRows& b, const float* x, const float* y, Load load,
                             Vector (&sums)[kColumns][kRows]) {
  Vector factors[kColumns];
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) factors[c] = load(y + c * b.y_row);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Vector row = load(x + r * b.x_row);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) sums[c][r] = hn::MulAdd(row, factors[c], sums[c][r]);
  }
}

/// Terms that are worked on together: so many of x's rows stay in the first cache.
constexpr std::int64_t kTerms = 1024;

/// Terms [begin, end), and where the lanes' sums of those before and with them are kept.
struct Terms {
  std::int64_t begin, end;
  float* sums;
};

template <int kRows, int kColumns>
HWY_INLINE void compute_tile(const DotRows& b, const Terms& terms, std::int64_t row,
                             std::int64_t column) {
  const Lanes d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  float* const kept = terms.sums + row * step;
  const std::int64_t rows = b.rows;
  const bool first = terms.begin == 0, last = terms.end == b.inner;
  Vector sums[kColumns][kRows];
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[c][r] = first ? hn::Zero(d) : hn::Load(d, kept + (c * rows + r) * step);
    }
  }
  const float* x = b.x + row * b.x_row + terms.begin;
  const float* y = b.y + column * b.y_row + terms.begin;
  const std::int64_t count = terms.end - terms.begin;
  std::int64_t i = 0;
  for (; i + step <= count; i += step, x += step, y += step) {
    // The next columns' terms, which no processor foresees.
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) hwy::Prefetch(y + (kColumns + c) * b.y_row);
    add_products<kRows, kColumns>(
        b, x, y, [](const float* from) HWY_ATTR { return hn::LoadU(Lanes(), from); }, sums);
  }
  if (i < count) {
    const Tail<Lanes> tail(d, count - i);
    add_products<kRows, kColumns>(
        b, x, y, [&](const float* from) HWY_ATTR { return tail.load(from); }, sums);
  }
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    const float bias = !last || b.bias == nullptr ? 0.0F : b.bias[column + c];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if (!last) {
        hn::Store(sums[c][r], d, kept + (c * rows + r) * step);
        continue;
      }
      float* const out = b.out + (row + r) * b.out_stride + column + c;
      const float sum = hn::GetLane(hn::SumOfLanes(d, sums[c][r])) + bias;
      *out = b.add ? *out + sum : sum;
    }
  }
}

/// At most kRows rows from `row` on.
template <int kRows, int kColumns>
void compute_rows(const DotRows& b, const Terms& terms, std::int64_t row, std::int64_t rows,
                  std::int64_t column) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return compute_rows<kRows - 1, kColumns>(b, terms, row, rows, column);
  }
  compute_tile<kRows, kColumns>(b, terms, row, column);
}

template <int kColumns>
void compute_columns(const DotRows& b, const Terms& terms, std::int64_t column) {
  for (std::int64_t row = 0; row < b.rows; row += kTileRows) {
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, b.rows - row);
    compute_rows<kTileRows, kColumns>(b, terms, row, rows, column);
  }
}

void dot_columns(const DotRows& dots, std::int64_t begin, std::int64_t end) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(Lanes()));
  HWY_ALIGN float sums[kDotColumns * kDotRows * hn::MaxLanes(Lanes())];
  for (std::int64_t first = 0; first < dots.inner; first += kTerms) {
    Terms terms{first, std::min(first + kTerms, dots.inner), sums};
    std::int64_t column = begin;
    for (; column + kTileColumns <= end; column += kTileColumns) {
      compute_columns<kTileColumns>(dots, terms, column);
      terms.sums += kTileColumns * dots.rows * step;
    }
    for (; column < end; ++column) {
      compute_columns<1>(dots, terms, column);
      terms.sums += dots.rows * step;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(dot_columns);

void dot_rows(const DotRows& dots, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(dot_columns)(dots, begin, end);
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
