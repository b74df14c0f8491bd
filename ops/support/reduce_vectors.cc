// SPDX-License-Identifier: Apache-2.0
// Rows joined with their totals, which stay in registers.
#include "ops/support/reduce_vectors.h"

// Totals are arrays of vectors, which scalable ones cannot form.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/reduce_vectors.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Numbers in f64.
template <typename D>
HWY_INLINE hn::Vec<D> load(D d, const double* x) {
  return hn::LoadU(d, x);
}
template <typename D>
HWY_INLINE hn::Vec<D> load(D d, const float* x) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), x));
}

template <typename V>
HWY_INLINE V join_vectors(SumReducer, V totals, V x) {
  return hn::Add(totals, x);
}
template <typename V>
HWY_INLINE V join_vectors(MaxReducer, V totals, V x) {
  return hn::IfThenElse(hn::Or(hn::Gt(x, totals), hn::IsNaN(x)), x, totals);
}

/// kVectors vectors of columns from column `j` on, as often as they fit; the first column left.
template <int kVectors, typename D, typename Reducer, typename T>
HWY_INLINE std::int64_t join_columns(D d, const T* x, const ReduceRows& rows, double* totals,
                                     std::int64_t j) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; j + kVectors * lanes <= rows.width; j += kVectors * lanes) {
    hn::Vec<D> sums[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[v] = hn::LoadU(d, totals + j + v * lanes);
    const T* row = x + j;
    for (std::int64_t r = 0; r < rows.count; ++r, row += rows.stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[v] = join_vectors(Reducer(), sums[v], load(d, row + v * lanes));
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, totals + j + v * lanes);
  }
  return j;
}

template <typename Reducer, typename T>
void join_rows(const T* x, const ReduceRows& rows, double* totals) {
  const hn::ScalableTag<double> d;
  std::int64_t j = join_columns<8, decltype(d), Reducer>(d, x, rows, totals, 0);
  j = join_columns<4, decltype(d), Reducer>(d, x, rows, totals, j);
  j = join_columns<2, decltype(d), Reducer>(d, x, rows, totals, j);
  j = join_columns<1, decltype(d), Reducer>(d, x, rows, totals, j);
  const hn::CappedTag<double, 1> one;
  join_columns<1, decltype(one), Reducer>(one, x, rows, totals, j);
}

// Names for the table of targets, which takes no templates.
void sum_rows_f32(const float* x, const ReduceRows& rows, double* totals) {
  join_rows<SumReducer>(x, rows, totals);
}
void sum_rows_f64(const double* x, const ReduceRows& rows, double* totals) {
  join_rows<SumReducer>(x, rows, totals);
}
void max_rows_f32(const float* x, const ReduceRows& rows, double* totals) {
  join_rows<MaxReducer>(x, rows, totals);
}
void max_rows_f64(const double* x, const ReduceRows& rows, double* totals) {
  join_rows<MaxReducer>(x, rows, totals);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(sum_rows_f32);
HWY_EXPORT(sum_rows_f64);
HWY_EXPORT(max_rows_f32);
HWY_EXPORT(max_rows_f64);

void VectorJoin::join(SumReducer, const float* x, const ReduceRows& rows, double* totals) {
  HWY_DYNAMIC_DISPATCH(sum_rows_f32)(x, rows, totals);
}
void VectorJoin::join(SumReducer, const double* x, const ReduceRows& rows, double* totals) {
  HWY_DYNAMIC_DISPATCH(sum_rows_f64)(x, rows, totals);
}
void VectorJoin::join(MaxReducer, const float* x, const ReduceRows& rows, double* totals) {
  HWY_DYNAMIC_DISPATCH(max_rows_f32)(x, rows, totals);
}
void VectorJoin::join(MaxReducer, const double* x, const ReduceRows& rows, double* totals) {
  HWY_DYNAMIC_DISPATCH(max_rows_f64)(x, rows, totals);
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
