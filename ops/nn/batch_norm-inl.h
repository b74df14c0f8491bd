// SPDX-License-Identifier: Apache-2.0
// What batch_norm.simd.cc does with the rows of one part of a group: moments, normalising, sums of
// gradients, the gradient. Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "ops/nn/batch_norm.h"
#include "ops/support/channel_rows.h"
#include "ops/support/memory-inl.h"

// As elements-inl.h: read once per instruction set.
#if HWY_ONCE
#pragma once
#endif

#ifndef TROUPE_OPS_BATCH_NORM_ONCE
#define TROUPE_OPS_BATCH_NORM_ONCE
namespace troupe::ops {

/// One run of any of the three operators.
struct NormCall {
  ChannelRows places;
  BatchNorm v;
  bool bf16 = false;  ///< what data, gradient, addend and output hold; else f32
  const void *data = nullptr, *gradient = nullptr, *addend = nullptr;
  const float *gamma = nullptr, *beta = nullptr;  ///< null: one, zero
  const float *mean = nullptr, *variance = nullptr;
  void* output = nullptr;                     ///< of a gradient: data's
  float *first = nullptr, *second = nullptr;  ///< mean and variance, or the gradients of vectors
  bool streams = false;                       ///< `output` goes past the caches
  double* scratch = nullptr;                  ///< two numbers per channel of each part's rows

  double* sums(std::int64_t group, std::int64_t part) const {
    return scratch + (group * places.parts + part) * 2 * places.row_channels();
  }
};

/// Of numbers: how many, their mean, and the sum of squared distances from it.
struct Moments {
  double count = 0.0, mean = 0.0, squares = 0.0;

  /// Joins other numbers' moments to these: Chan's formula.
  void join(const Moments& other) {
    if (other.count == 0.0) return;
    const double distance = other.mean - mean, share = other.count / (count + other.count);
    mean += distance * share;
    squares += other.squares + distance * distance * (count * share);
    count += other.count;
  }
};

/// Rows that are alike: the first one's place, how many, and the numbers of each.
struct NormRows {
  std::int64_t offset = 0, count = 0, numbers = 0;
};

/// Parts of a group, by number.
struct NormParts {
  std::int64_t begin = 0, end = 0;
};

/// Memory of a call, as numbers of T.
template <typename T>
const T* numbers(const void* memory) {
  return static_cast<const T*>(memory);
}
template <typename T>
T* numbers(void* memory) {
  return static_cast<T*>(memory);
}

/// Rows whose sums are taken in f32.
inline constexpr std::int64_t kNormPiece = 128;

}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// run(rows, whole) for the rows of a part, at most `most` at a time; `whole` is a constant: rows
/// are vectors.
template <typename Run>
HWY_INLINE void for_rows(const ChannelRows& p, std::int64_t group, std::int64_t part,
                         std::int64_t most, Run&& run) {
  const std::int64_t begin = p.offset(group, part), count = p.rows_of(part);
  const std::int64_t numbers = p.channels_aside && !p.padded ? p.channels_of(group) : p.lanes;
  for (std::int64_t row = 0; row < count; row += most) {
    const NormRows rows{begin + row * p.row_step, std::min(most, count - row), numbers};
    if (numbers == p.lanes) {
      run(rows, std::true_type());
    } else {
      run(rows, std::false_type());
    }
  }
  if (p.rest == 0) return;
  run(NormRows{begin + count * p.row_step, 1, p.rest}, std::false_type());
}

/// As many numbers as a vector has, side by side.
struct LaneArray {
  HWY_ALIGN float at[HWY_MAX_BYTES / sizeof(float)] = {};
};

/// The first `count` lanes from memory, `other` in those behind.
template <typename D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* from, std::int64_t count, float other) {
  const auto there = hn::FirstN(d, static_cast<std::size_t>(count));
  return hn::IfThenElse(there, Tail<D>(d, count).load(from), hn::Set(d, other));
}

template <typename D, typename Whole, typename T>
HWY_INLINE hn::Vec<D> load_row(D d, Whole, const T* from, const NormRows& rows) {
  if constexpr (Whole::value) {
    return load(d, from);
  } else {
    return load_first(d, rows.numbers, from);
  }
}

template <typename D, typename Whole, typename T>
HWY_INLINE void store_row(D d, Whole, hn::Vec<D> value, T* to, const NormRows& rows) {
  if constexpr (Whole::value) {
    store(d, value, to);
  } else {
    store_first(d, rows.numbers, value, to);
  }
}

/// A number per channel of a group; one number for all lanes where they are of one channel. Lanes
/// without a channel, and all where `vector` is null, are `other`.
template <typename D>
HWY_INLINE hn::Vec<D> of_group(D d, const ChannelRows& p, std::int64_t group, const float* vector,
                               float other) {
  if (vector == nullptr) return hn::Set(d, other);
  const float* from = vector + p.channel(group);
  if (!p.channels_aside) return hn::Set(d, *from);
  return load_some(d, from, p.channels_of(group), other);
}

/// What normalises a group: (x - mean) * scale + shift. Zeros that follow channels stay zero.
template <typename D>
struct Scaling {
  hn::Vec<D> mean, scale, shift;

  HWY_INLINE Scaling(D d, const NormCall& c, std::int64_t group)
      : mean(of_group(d, c.places, group, c.mean, 0.0F)),
        scale(hn::Div(of_group(d, c.places, group, c.gamma, 1.0F),
                      hn::Sqrt(hn::Add(of_group(d, c.places, group, c.variance, 1.0F),
                                       hn::Set(d, static_cast<float>(c.v.eps)))))),
        shift(of_group(d, c.places, group, c.beta, 0.0F)) {}

  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> x) const {
    return hn::MulAdd(hn::Sub(x, mean), scale, shift);
  }
};

/// run(f64 tag, lane) for the lanes of D, as many at a time as there are numbers in f64.
template <typename D, typename Run>
HWY_INLINE void for_wide(D d, Run&& run) {
  const hn::Repartition<double, D> wide;
  for (std::size_t lane = 0; lane < hn::Lanes(d); lane += hn::Lanes(wide)) run(wide, lane);
}

/// Lanes from `lane` on in f64.
template <typename W>
HWY_INLINE hn::Vec<W> widened(W wide, const LaneArray& lanes, std::size_t lane) {
  return hn::PromoteTo(wide, hn::LoadU(hn::Rebind<float, W>(), lanes.at + lane));
}

/// Joins the means and the sums of squared distances of a piece to those of `before` rows: Chan's
/// formula.
template <typename D>
HWY_INLINE void join_piece(D d, double* moments, std::int64_t before, const NormRows& rows,
                           hn::Vec<D> mean, hn::Vec<D> squares) {
  LaneArray means, squared;
  hn::Store(mean, d, means.at);
  hn::Store(squares, d, squared.at);
  const double share = static_cast<double>(rows.count) / static_cast<double>(before + rows.count);
  const double weight = static_cast<double>(before) * share;
  for_wide(d, [&](auto w, std::size_t lane) HWY_ATTR {
    const auto count = std::max<std::int64_t>(rows.numbers - static_cast<std::int64_t>(lane), 0);
    const auto there = hn::FirstN(w, static_cast<std::size_t>(count));
    double* const at = moments + lane;
    const auto old_mean = hn::LoadU(w, at), old_squares = hn::LoadU(w, at + hn::Lanes(d));
    const auto distance = hn::Sub(widened(w, means, lane), old_mean);
    const auto joined = hn::MulAdd(distance, hn::Set(w, share), old_mean);
    const auto sum = hn::Add(old_squares, widened(w, squared, lane));
    const auto joined_squares = hn::MulAdd(hn::Mul(distance, distance), hn::Set(w, weight), sum);
    hn::StoreU(hn::IfThenElse(there, joined, old_mean), w, at);
    hn::StoreU(hn::IfThenElse(there, joined_squares, old_squares), w, at + hn::Lanes(d));
  });
}

/// Joins the moments of all lanes, of which the first `rest` are of a number more than the `rows`
/// of the others, into those of the first.
template <typename D>
HWY_INLINE void join_lanes(D d, double* moments, std::int64_t rows, std::int64_t rest) {
  const hn::Repartition<double, D> wide;
  double* const squares = moments + hn::Lanes(d);
  const auto counts = [&](auto w, std::size_t lane) HWY_ATTR {
    const auto more = std::max<std::int64_t>(rest - static_cast<std::int64_t>(lane), 0);
    return hn::Add(
        hn::Set(w, static_cast<double>(rows)),
        hn::IfThenElseZero(hn::FirstN(w, static_cast<std::size_t>(more)), hn::Set(w, 1.0)));
  };
  const auto count = static_cast<double>(rows * static_cast<std::int64_t>(hn::Lanes(d)) + rest);
  auto sum = hn::Zero(wide), sum_squares = hn::Zero(wide);
  for_wide(d, [&](auto w, std::size_t lane) HWY_ATTR {
    sum = hn::MulAdd(counts(w, lane), hn::LoadU(w, moments + lane), sum);
  });
  const auto mean = hn::Div(hn::SumOfLanes(wide, sum), hn::Set(wide, count));
  for_wide(d, [&](auto w, std::size_t lane) HWY_ATTR {
    const auto distance = hn::Sub(hn::LoadU(w, moments + lane), mean);
    const auto weighted = hn::Mul(counts(w, lane), distance);
    const auto own = hn::Add(sum_squares, hn::LoadU(w, squares + lane));
    sum_squares = hn::MulAdd(weighted, distance, own);
  });
  moments[0] = hn::GetLane(mean);
  moments[1] = hn::GetLane(hn::SumOfLanes(wide, sum_squares));
}

/// Two numbers a lane.
struct Pairs {
  double at[2 * HWY_MAX_BYTES / sizeof(float)] = {};
};

/// The moments of one part by channels: means, then sums of squared distances from them.
template <typename T, typename D>
HWY_INLINE void measure_part(D d, const NormCall& c, std::int64_t group, std::int64_t part) {
  Pairs lanes;
  double* const moments = lanes.at;
  std::int64_t before = 0;
  for_rows(c.places, group, part, kNormPiece, [&](const NormRows& rows, auto whole) HWY_ATTR {
    const T* const from = numbers<T>(c.data) + rows.offset;
    const std::int64_t step = c.places.row_step;
    auto sum = hn::Zero(d), odd_sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + 2 <= rows.count; i += 2) {
      sum = hn::Add(sum, load_row(d, whole, from + i * step, rows));
      odd_sum = hn::Add(odd_sum, load_row(d, whole, from + (i + 1) * step, rows));
    }
    if (i < rows.count) sum = hn::Add(sum, load_row(d, whole, from + i * step, rows));
    const auto mean = hn::Div(hn::Add(sum, odd_sum), hn::Set(d, static_cast<float>(rows.count)));
    auto squares = hn::Zero(d), odd_squares = hn::Zero(d);
    for (i = 0; i + 2 <= rows.count; i += 2) {
      const auto one = hn::Sub(load_row(d, whole, from + i * step, rows), mean);
      const auto two = hn::Sub(load_row(d, whole, from + (i + 1) * step, rows), mean);
      squares = hn::MulAdd(one, one, squares);
      odd_squares = hn::MulAdd(two, two, odd_squares);
    }
    if (i < rows.count) {
      const auto one = hn::Sub(load_row(d, whole, from + i * step, rows), mean);
      squares = hn::MulAdd(one, one, squares);
    }
    join_piece(d, moments, before, rows, mean, hn::Add(squares, odd_squares));
    before += rows.count;
  });
  if (!c.places.channels_aside) join_lanes(d, moments, c.places.rows_of(part), c.places.rest);
  std::copy_n(moments, 2 * c.places.row_channels(), c.sums(group, part));
}

/// Writes a row of output; kStreams: past the caches, which whole rows can.
template <bool kStreams, typename D, typename Whole, typename T>
HWY_INLINE void put_row(D d, Whole whole, hn::Vec<D> value, T* to, const NormRows& rows) {
  if constexpr (kStreams && Whole::value) {
    stream(d, value, to);
  } else {
    store_row(d, whole, value, to, rows);
  }
}

/// Writes the rows of one part. kSum: an addend; kStreams: past the caches. Here as below, what
/// rows share is copied, or each store might have changed it.
template <typename T, bool kSum, bool kStreams, typename D>
HWY_INLINE void normalise_part(D d, const NormCall& c, const Scaling<D>& shared, std::int64_t group,
                               std::int64_t part) {
  for_rows(c.places, group, part, c.places.rows, [&](const NormRows& rows, auto whole) HWY_ATTR {
    const Scaling<D> normal = shared;
    const auto least = hn::Set(d, c.v.epilogue.relu ? 0.0F : -HUGE_VALF);
    const std::int64_t step = c.places.row_step;
    const T* from = numbers<T>(c.data) + rows.offset;
    const T* addend = numbers<T>(c.addend);
    if constexpr (kSum) addend += rows.offset;
    T* to = numbers<T>(c.output) + rows.offset;
    for (std::int64_t i = 0; i < rows.count; ++i, from += step, to += step) {
      auto y = normal(load_row(d, whole, from, rows));
      if constexpr (kSum) {
        y = hn::Add(y, load_row(d, whole, addend, rows));
        addend += step;
      }
      y = hn::IfThenElse(hn::Le(y, least), least, y);  // NaN stays
      put_row<kStreams>(d, whole, y, to, rows);
    }
  });
}

/// Adds the f32 sums of a piece to a part's.
template <typename D>
HWY_INLINE void add_piece([[maybe_unused]] D d, double* sums, hn::Vec<D> piece) {
#if HWY_TARGET == HWY_SCALAR  // one lane has no halves
  *sums += static_cast<double>(hn::GetLane(piece));
#else
  const hn::Half<D> half;
  const hn::Repartition<double, D> wide;
  double* const upper = sums + hn::Lanes(wide);
  const auto low = hn::PromoteTo(wide, hn::LowerHalf(half, piece));
  const auto high = hn::PromoteTo(wide, hn::UpperHalf(half, piece));
  hn::StoreU(hn::Add(hn::LoadU(wide, sums), low), wide, sums);
  hn::StoreU(hn::Add(hn::LoadU(wide, upper), high), wide, upper);
#endif
}

/// The sum over the lanes of D of what add_piece() added.
template <typename D>
HWY_INLINE double sum_of_lanes(D d, const double* sums) {
  const hn::Repartition<double, D> wide;
  auto total = hn::Zero(wide);
  for_wide(d, [&](auto w, std::size_t lane)
                  HWY_ATTR { total = hn::Add(total, hn::LoadU(w, sums + lane)); });
  return hn::GetLane(hn::SumOfLanes(wide, total));
}

/// A row of the gradient before relu, and of data's distances from the mean.
template <typename D>
struct GradientRow {
  hn::Vec<D> gradient, distance;
};

template <bool kRelu, typename D, typename Whole, typename T>
HWY_INLINE GradientRow<D> load_gradient(D d, Whole whole, const Scaling<D>& normal,
                                        const NormRows& rows, const T* gradient, const T* data) {
  GradientRow<D> row{load_row(d, whole, gradient, rows),
                     hn::Sub(load_row(d, whole, data, rows), normal.mean)};
  if constexpr (!Whole::value) {  // the mean may be infinite
    const auto there = hn::FirstN(d, static_cast<std::size_t>(rows.numbers));
    row.distance = hn::IfThenElseZero(there, row.distance);
  }
  if constexpr (kRelu) {
    const auto y = hn::MulAdd(row.distance, normal.scale, normal.shift);
    row.gradient = hn::IfThenZeroElse(hn::Le(y, hn::Zero(d)), row.gradient);
  }
  return row;
}

/// The sums of parts that go together by channels: of gradients, then of their products with
/// distances. They are those of the first part.
template <typename T, bool kRelu, typename D>
HWY_INLINE void sum_parts(D d, const NormCall& c, const Scaling<D>& shared, std::int64_t group,
                          const NormParts& parts) {
  Pairs lanes;
  double* const sums = lanes.at;
  auto sum = hn::Zero(d), products = hn::Zero(d);
  const auto flush = [&]() HWY_ATTR {
    add_piece(d, sums, sum);
    add_piece(d, sums + hn::Lanes(d), products);
    sum = products = hn::Zero(d);
  };
  const auto sum_rows = [&](const NormRows& rows, auto whole) HWY_ATTR {
    const Scaling<D> normal = shared;
    const std::int64_t step = c.places.row_step;
    const T* gradient = numbers<T>(c.gradient) + rows.offset;
    const T* data = numbers<T>(c.data) + rows.offset;
    auto odd_sum = hn::Zero(d), odd_products = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + 2 <= rows.count; i += 2, gradient += 2 * step, data += 2 * step) {
      const auto one = load_gradient<kRelu>(d, whole, normal, rows, gradient, data);
      const auto two = load_gradient<kRelu>(d, whole, normal, rows, gradient + step, data + step);
      sum = hn::Add(sum, one.gradient);
      odd_sum = hn::Add(odd_sum, two.gradient);
      products = hn::MulAdd(one.gradient, one.distance, products);
      odd_products = hn::MulAdd(two.gradient, two.distance, odd_products);
    }
    if (i < rows.count) {
      const auto one = load_gradient<kRelu>(d, whole, normal, rows, gradient, data);
      sum = hn::Add(sum, one.gradient);
      products = hn::MulAdd(one.gradient, one.distance, products);
    }
    sum = hn::Add(sum, odd_sum);
    products = hn::Add(products, odd_products);
    if (rows.count == kNormPiece) flush();
  };
  for (std::int64_t part = parts.begin; part < parts.end; ++part) {
    for_rows(c.places, group, part, kNormPiece, sum_rows);
  }
  flush();
  if (!c.places.channels_aside) {
    const double second = sum_of_lanes(d, sums + hn::Lanes(d));
    sums[0] = sum_of_lanes(d, sums);
    sums[1] = second;
  }
  double* const to = c.sums(group, parts.begin);
  for (std::int64_t i = 0; i < 2 * c.places.row_channels(); ++i) to[i] = sums[i];
}

/// Per channel what all rows' gradients have in common, as finish_sums() left it.
template <typename D>
struct Common {
  hn::Vec<D> slope, shift;

  HWY_INLINE Common(D d, const NormCall& c, std::int64_t group) {
    const double* const sums = c.sums(group, 0);
    LaneArray shifts, slopes;
    for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
      const std::size_t from = c.places.channels_aside ? lane : 0;
      shifts.at[lane] = static_cast<float>(sums[from]);
      slopes.at[lane] =
          static_cast<float>(sums[from + static_cast<std::size_t>(c.places.row_channels())]);
    }
    slope = hn::Load(d, slopes.at);
    shift = hn::Load(d, shifts.at);
  }
};

/// Writes the gradient of data of one part: a * gradient and, unless statistics are given,
/// + b * distance + c.
template <typename T, bool kRelu, bool kGlobal, bool kStreams, typename D>
HWY_INLINE void differentiate_part(D d, const NormCall& c, const Scaling<D>& shared_normal,
                                   const Common<D>& shared, std::int64_t group, std::int64_t part) {
  for_rows(c.places, group, part, c.places.rows, [&](const NormRows& rows, auto whole) HWY_ATTR {
    const Scaling<D> normal = shared_normal;
    const Common<D> common = shared;
    const std::int64_t step = c.places.row_step;
    const T* gradient = numbers<T>(c.gradient) + rows.offset;
    const T* data = numbers<T>(c.data) + rows.offset;
    T* to = numbers<T>(c.output) + rows.offset;
    for (std::int64_t i = 0; i < rows.count; ++i, gradient += step, data += step, to += step) {
      const auto row = load_gradient<kRelu>(d, whole, normal, rows, gradient, data);
      auto result = hn::Mul(normal.scale, row.gradient);
      if constexpr (!kGlobal) {
        result = hn::Add(result, hn::MulAdd(common.slope, row.distance, common.shift));
      }
      put_row<kStreams>(d, whole, result, to, rows);
    }
  });
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
