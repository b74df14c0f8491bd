// SPDX-License-Identifier: Apache-2.0
// softmax, its logarithm and the gradients of both over f32 vectors: along neighbours in memory, or
// along an axis with others behind it, where vectors lie across the rows. Sums are taken in f32
// over at most 64 terms a lane, beyond that rows of neighbours in f64, others from 64 terms to the
// next 64. A row with NaN or infinity, or with nothing above -infinity, becomes NaN.
// Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/nn/class_axis.h"
#include "ops/support/chunks.h"
#include "ops/support/exp-inl.h"
#include "ops/support/lanes-inl.h"
#include "ops/support/tail-inl.h"

// As elements-inl.h: read once per instruction set.
#if HWY_ONCE
#pragma once
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A form has
//   kPeak    whether it subtracts the row's largest number
//   term()   what is summed up, of the two inputs at one place (the same where there is one)
//   last()   a number of the sum, for
//   result() at one place; where kKeeps, of its term alone

/// exp(a - peak) / sum.
struct SoftmaxForm {
  static constexpr bool kPeak = true, kKeeps = true;
  static double last(double sum) { return 1.0 / sum; }
  template <typename D, typename V>
  static HWY_INLINE V term(D d, V a, V, V peak) {
    return exp_of(d, hn::Sub(a, peak));
  }
  template <typename D, typename V>
  static HWY_INLINE V result(D d, V a, V b, V peak, V last) {
    return of_term(term(d, a, b, peak), last);
  }
  template <typename V>
  static HWY_INLINE V of_term(V term, V last) {
    return hn::Mul(term, last);
  }
};

/// a - peak - log(sum).
struct LogSoftmaxForm : SoftmaxForm {
  static constexpr bool kKeeps = false;
  static double last(double sum) { return std::log(sum); }
  template <typename D, typename V>
  static HWY_INLINE V result(D, V a, V, V peak, V last) {
    return hn::Sub(hn::Sub(a, peak), last);
  }
};

/// Of the output's gradient a and the output b: b * (a - sum(a * b)).
struct SoftmaxBackwardForm {
  static constexpr bool kPeak = false, kKeeps = false;
  static double last(double sum) { return sum; }
  template <typename D, typename V>
  static HWY_INLINE V term(D, V a, V b, V) {
    return hn::Mul(a, b);
  }
  template <typename D, typename V>
  static HWY_INLINE V result(D, V a, V b, V, V last) {
    return hn::Mul(b, hn::Sub(a, last));
  }
};

/// The same of log_softmax: a - exp(b) * sum(a).
struct LogSoftmaxBackwardForm : SoftmaxBackwardForm {
  template <typename D, typename V>
  static HWY_INLINE V term(D, V a, V, V) {
    return a;
  }
  template <typename D, typename V>
  static HWY_INLINE V result(D d, V a, V b, V, V last) {
    return hn::Sub(a, hn::Mul(exp_of(d, b), last));
  }
};

/// Terms that a lane adds up in f32 before the sum goes elsewhere.
inline constexpr std::int64_t kSummedTerms = 64;

/// What a call reads and writes.
struct SoftmaxArrays {
  const float* a = nullptr;
  const float* b = nullptr;
  float* out = nullptr;

  SoftmaxArrays at(std::int64_t offset) const { return {a + offset, b + offset, out + offset}; }
};

HWY_INLINE float row_peak(const float* row, std::int64_t classes) {
  float peak = -std::numeric_limits<float>::infinity();
  std::int64_t i = 0;
  with_tags([&](auto d) HWY_ATTR {
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    auto most = hn::Set(d, peak);
    for (; i + step <= classes; i += step) most = hn::Max(most, hn::LoadU(d, row + i));
    peak = hn::GetLane(hn::MaxOfLanes(d, most));
  });
  return peak;
}

/// One row, whose classes are neighbours.
template <typename Form, bool kAdds>
void run_row(const SoftmaxArrays& row, std::int64_t classes) {
  constexpr bool kKeeps = Form::kKeeps && !kAdds;
  const float peak = Form::kPeak ? row_peak(row.a, classes) : 0.0F;
  double sum = 0.0;
  std::int64_t i = 0;
  with_tags([&](auto d) HWY_ATTR {
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    while (i + step <= classes) {
      auto part = hn::Zero(d);
      for (std::int64_t k = 0; k < kSummedTerms && i + step <= classes; ++k, i += step) {
        const auto term =
            Form::term(d, hn::LoadU(d, row.a + i), hn::LoadU(d, row.b + i), hn::Set(d, peak));
        if constexpr (kKeeps) hn::StoreU(term, d, row.out + i);
        part = hn::Add(part, term);
      }
      sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, part)));
    }
  });
  const auto last = static_cast<float>(Form::last(sum));
  i = 0;
  with_tags([&](auto d) HWY_ATTR {
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    const auto factor = hn::Set(d, last);
    for (; i + step <= classes; i += step) {
      if constexpr (kKeeps) {
        hn::StoreU(Form::of_term(hn::LoadU(d, row.out + i), factor), d, row.out + i);
      } else {
        auto result = Form::result(d, hn::LoadU(d, row.a + i), hn::LoadU(d, row.b + i),
                                   hn::Set(d, peak), factor);
        if constexpr (kAdds) result = hn::Add(hn::LoadU(d, row.out + i), result);
        hn::StoreU(result, d, row.out + i);
      }
    }
  });
}

/// Rows beside each other that are computed at once, at most.
inline constexpr std::int64_t kRowsMost = 1024;

/// As many as a core's cache holds, 64 at least; a multiple of every vector.
inline std::int64_t rows_at_once(std::int64_t classes) {
  constexpr std::int64_t kNumbers = 32'768, kLeast = 64;
  return std::clamp(kNumbers / classes / kLeast * kLeast, kLeast, kRowsMost);
}

/// All lanes of a vector, as Tail has some.
template <typename D>
struct WholeVector {
  HWY_INLINE hn::Vec<D> load(const float* place) const { return hn::LoadU(D(), place); }
  HWY_INLINE void store(hn::Vec<D> vector, float* place) const { hn::StoreU(vector, D(), place); }
};

/// `count` rows beside each other, at most rows_at_once(); the classes of each are `inner` apart.
template <typename Form, bool kAdds>
void run_rows_beside(const SoftmaxArrays& rows, std::int64_t classes, std::int64_t inner,
                     std::int64_t count) {
  constexpr bool kKeeps = Form::kKeeps && !kAdds;
  const hn::ScalableTag<float> d;
  using D = decltype(d);
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  // By row. Lanes behind the last row hold numbers that nobody reads.
  HWY_ALIGN float peak[kRowsMost], part[kRowsMost], sum[kRowsMost];
  const std::int64_t lanes_of_rows = (count + step - 1) / step * step;
  std::fill_n(peak, lanes_of_rows, Form::kPeak ? -std::numeric_limits<float>::infinity() : 0.0F);
  std::fill_n(part, lanes_of_rows, 0.0F);
  std::fill_n(sum, lanes_of_rows, 0.0F);
  // f(lanes, row) for all vectors of rows.
  const auto each = [&](auto&& f) HWY_ATTR {
    std::int64_t row = 0;
    for (; row + step <= count; row += step) f(WholeVector<hn::ScalableTag<float>>(), row);
    if (row < count) f(Tail<hn::ScalableTag<float>>(D(), count - row), row);
  };
  if constexpr (Form::kPeak) {
    for (std::int64_t k = 0; k < classes; ++k) {
      each([&](auto lanes, std::int64_t row) HWY_ATTR {
        const auto x = lanes.load(rows.a + k * inner + row);
        hn::Store(hn::Max(hn::Load(d, peak + row), x), d, peak + row);
      });
    }
  }
  for (std::int64_t k = 0; k < classes; ++k) {
    const bool full = (k + 1) % kSummedTerms == 0 || k + 1 == classes;
    each([&](auto lanes, std::int64_t row) HWY_ATTR {
      const std::int64_t at = k * inner + row;
      const auto term =
          Form::term(d, lanes.load(rows.a + at), lanes.load(rows.b + at), hn::Load(d, peak + row));
      if constexpr (kKeeps) lanes.store(term, rows.out + at);
      const auto so_far = hn::Add(hn::Load(d, part + row), term);
      hn::Store(full ? hn::Zero(d) : so_far, d, part + row);
      if (full) hn::Store(hn::Add(hn::Load(d, sum + row), so_far), d, sum + row);
    });
  }
  for (std::int64_t row = 0; row < count; ++row) {
    sum[row] = static_cast<float>(Form::last(static_cast<double>(sum[row])));
  }
  for (std::int64_t k = 0; k < classes; ++k) {
    each([&](auto lanes, std::int64_t row) HWY_ATTR {
      const std::int64_t at = k * inner + row;
      const auto last = hn::Load(d, sum + row);
      if constexpr (kKeeps) {
        lanes.store(Form::of_term(lanes.load(rows.out + at), last), rows.out + at);
      } else {
        auto result = Form::result(d, lanes.load(rows.a + at), lanes.load(rows.b + at),
                                   hn::Load(d, peak + row), last);
        if constexpr (kAdds) result = hn::Add(lanes.load(rows.out + at), result);
        lanes.store(result, rows.out + at);
      }
    });
  }
}

/// All rows of a call, on its team.
template <typename Form, bool kAdds>
void run_all_rows(const KernelContext& context, const ClassAxis& axis,
                  const SoftmaxArrays& arrays) {
  if (axis.rows() == 0 || axis.classes == 0) return;
  const auto chunk = [](std::int64_t elements) {
    return std::max<std::int64_t>(1, kChunkElements / elements);
  };
  if (axis.inner == 1) {
    parallel_ranges(
        context, axis.outer,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            run_row<Form, kAdds>(arrays.at(row * axis.classes), axis.classes);
          }
        },
        chunk(axis.classes));
    return;
  }
  const std::int64_t most = rows_at_once(axis.classes);
  const std::int64_t parts = (axis.inner + most - 1) / most;
  parallel_ranges(
      context, axis.outer * parts,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t first = i % parts * most;
          run_rows_beside<Form, kAdds>(arrays.at(i / parts * axis.classes * axis.inner + first),
                                       axis.classes, axis.inner,
                                       std::min(most, axis.inner - first));
        }
      },
      chunk(axis.classes * std::min(most, axis.inner)));
}

/// A call whose output 0 is written or added to.
template <typename Form>
base::Status run_softmax_form(const OpCall& call, const KernelContext& context,
                              const ClassAxis& axis, const SoftmaxArrays& arrays) {
  if (!call.modes.empty() && call.modes[0] == WriteMode::add) {
    run_all_rows<Form, true>(context, axis, arrays);
  } else {
    run_all_rows<Form, false>(context, axis, arrays);
  }
  return {};
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
