// SPDX-License-Identifier: Apache-2.0
// batch_norm, its prediction form and its gradient of f32 with the widest vectors of the machine,
// in the layout that data has. What binds them is memory: the statistics of the batch take one pass
// over data, by pieces that stay in the first cache and are joined in f64 (Chan, Golub and LeVeque
// 1979); sum and relu ride in the pass that normalises; and the gradient finds from data where relu
// was zero. One channel's passes follow each other while its numbers may be in a cache.
// Results depend on shapes and layouts alone.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/nn/batch_norm.h"
#include "ops/roofline.h"
#include "ops/support/channel_rows.h"
#include "ops/support/layout_map.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nn/batch_norm.simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TROUPE_OPS_BATCH_NORM_ONCE
#define TROUPE_OPS_BATCH_NORM_ONCE
namespace troupe::ops {

/// One run of any of the three operators.
struct NormCall {
  ChannelRows places;
  BatchNorm v;
  const float *data = nullptr, *gradient = nullptr, *addend = nullptr;
  const float *gamma = nullptr, *beta = nullptr;  ///< null: one, zero
  const float *mean = nullptr, *variance = nullptr;
  float* output = nullptr;                    ///< of a gradient: data's
  float *first = nullptr, *second = nullptr;  ///< mean and variance, or the gradients of vectors
  bool streams = false;                       ///< `output` goes past the caches
  double* scratch = nullptr;                  ///< two numbers per channel of each part's rows

  double* sums(std::int64_t group, std::int64_t part) const {
    return scratch + (group * places.parts + part) * 2 * places.row_channels();
  }
};

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
  std::int64_t offset = 0, count = 0;
  std::size_t numbers = 0;
};

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
    const NormRows rows{begin + row * p.row_step, std::min(most, count - row),
                        static_cast<std::size_t>(numbers)};
    if (numbers == p.lanes) {
      run(rows, std::true_type());
    } else {
      run(rows, std::false_type());
    }
  }
  if (p.rest == 0) return;
  run(NormRows{begin + count * p.row_step, 1, static_cast<std::size_t>(p.rest)}, std::false_type());
}

/// As many numbers as a vector has, side by side.
struct Lanes {
  HWY_ALIGN float at[HWY_MAX_BYTES / sizeof(float)] = {};
};

/// The first `count` lanes from memory, `other` in those behind.
template <typename D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* from, std::size_t count, float other) {
  Lanes lanes;
  hn::Store(hn::Set(d, other), d, lanes.at);
  std::copy_n(from, count, lanes.at);
  return hn::Load(d, lanes.at);
}

template <typename D>
HWY_INLINE void store_some(D d, hn::Vec<D> value, float* to, std::size_t count) {
  Lanes lanes;
  hn::Store(value, d, lanes.at);
  std::copy_n(lanes.at, count, to);
}

template <typename D, typename Whole>
HWY_INLINE hn::Vec<D> load_row(D d, Whole, const float* from, const NormRows& rows) {
  if constexpr (Whole::value) {
    return hn::LoadU(d, from);
  } else {
    return load_some(d, from, rows.numbers, 0.0F);
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
  return load_some(d, from, static_cast<std::size_t>(p.channels_of(group)), other);
}

/// What normalises a group: (x - mean) * scale + shift. Zeros that follow channels stay zero.
template <typename D>
struct Normal {
  hn::Vec<D> mean, scale, shift;

  HWY_INLINE Normal(D d, const NormCall& c, std::int64_t group)
      : mean(of_group(d, c.places, group, c.mean, 0.0F)),
        scale(hn::Div(of_group(d, c.places, group, c.gamma, 1.0F),
                      hn::Sqrt(hn::Add(of_group(d, c.places, group, c.variance, 1.0F),
                                       hn::Set(d, static_cast<float>(c.v.eps)))))),
        shift(of_group(d, c.places, group, c.beta, 0.0F)) {}

  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> x) const {
    return hn::MulAdd(hn::Sub(x, mean), scale, shift);
  }
};

/// Joins the means and the sums of squared distances of a piece to those of `before` rows: Chan's
/// formula.
template <typename D>
HWY_INLINE void join_piece(D d, double* moments, std::int64_t before, const NormRows& rows,
                           hn::Vec<D> mean, hn::Vec<D> squares) {
  Lanes means, squared;
  hn::Store(mean, d, means.at);
  hn::Store(squares, d, squared.at);
  const double share = static_cast<double>(rows.count) / static_cast<double>(before + rows.count);
  const double weight = static_cast<double>(before) * share;
  double* const mean_sum = moments;
  double* const square_sum = moments + hn::Lanes(d);
  for (std::size_t lane = 0; lane < rows.numbers; ++lane) {
    const double distance = static_cast<double>(means.at[lane]) - mean_sum[lane];
    mean_sum[lane] += distance * share;
    square_sum[lane] += static_cast<double>(squared.at[lane]) + distance * distance * weight;
  }
}

/// Two numbers a lane.
struct Pairs {
  double at[2 * HWY_MAX_BYTES / sizeof(float)] = {};
};

/// The moments of one part by channels: means, then sums of squared distances from them.
template <typename D>
HWY_INLINE void measure_part(D d, const NormCall& c, std::int64_t group, std::int64_t part) {
  Pairs lanes;
  double* const moments = lanes.at;
  std::int64_t before = 0;
  for_rows(c.places, group, part, kNormPiece, [&](const NormRows& rows, auto whole) HWY_ATTR {
    const float* const from = c.data + rows.offset;
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
  const auto count = static_cast<std::int64_t>(hn::Lanes(d));
  if (!c.places.channels_aside) {
    Moments whole;
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const auto numbers = static_cast<double>(c.places.count(part, lane));
      whole.join({numbers, moments[lane], moments[count + lane]});
    }
    moments[0] = whole.mean;
    moments[1] = whole.squares;
  }
  std::copy_n(moments, 2 * c.places.row_channels(), c.sums(group, part));
}

/// Writes the rows of one part. kSum: an addend; kStreams: past the caches.
template <bool kSum, bool kStreams, typename D>
HWY_INLINE void normalise_part(D d, const NormCall& c, std::int64_t group, std::int64_t part) {
  const Normal<D> normal(d, c, group);
  const auto least = hn::Set(d, c.v.epilogue.relu ? 0.0F : -HUGE_VALF);
  for_rows(c.places, group, part, c.places.rows, [&](const NormRows& rows, auto whole) HWY_ATTR {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t at = rows.offset + i * c.places.row_step;
      auto y = normal(load_row(d, whole, c.data + at, rows));
      if constexpr (kSum) y = hn::Add(y, load_row(d, whole, c.addend + at, rows));
      y = hn::IfThenElse(hn::Le(y, least), least, y);  // NaN stays
      if constexpr (kStreams && decltype(whole)::value) {
        hn::Stream(y, d, c.output + at);
      } else if constexpr (decltype(whole)::value) {
        hn::StoreU(y, d, c.output + at);
      } else {
        store_some(d, y, c.output + at, rows.numbers);
      }
    }
  });
}

/// Adds the f32 sums of a piece to a part's.
template <typename D>
HWY_INLINE void add_piece(D d, double* sums, hn::Vec<D> piece, std::size_t lanes) {
  Lanes numbers;
  hn::Store(piece, d, numbers.at);
  for (std::size_t lane = 0; lane < lanes; ++lane)
    sums[lane] += static_cast<double>(numbers.at[lane]);
}

/// A row of the gradient before relu, and of data's distances from the mean.
template <typename D>
struct GradientRow {
  hn::Vec<D> gradient, distance;
};

template <bool kRelu, typename D, typename Whole>
HWY_INLINE GradientRow<D> load_gradient(D d, Whole whole, const NormCall& c,
                                        const Normal<D>& normal, const NormRows& rows,
                                        std::int64_t at) {
  GradientRow<D> row{load_row(d, whole, c.gradient + at, rows),
                     hn::Sub(load_row(d, whole, c.data + at, rows), normal.mean)};
  if constexpr (kRelu) {
    const auto y = hn::MulAdd(row.distance, normal.scale, normal.shift);
    row.gradient = hn::IfThenZeroElse(hn::Le(y, hn::Zero(d)), row.gradient);
  }
  return row;
}

/// The sums of one part by channels: of gradients, then of their products with distances.
template <bool kRelu, typename D>
HWY_INLINE void sum_part(D d, const NormCall& c, std::int64_t group, std::int64_t part) {
  Pairs lanes;
  double* const sums = lanes.at;
  const Normal<D> normal(d, c, group);
  for_rows(c.places, group, part, kNormPiece, [&](const NormRows& rows, auto whole) HWY_ATTR {
    auto sum = hn::Zero(d), products = hn::Zero(d);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const GradientRow<D> row =
          load_gradient<kRelu>(d, whole, c, normal, rows, rows.offset + i * c.places.row_step);
      sum = hn::Add(sum, row.gradient);
      products = hn::MulAdd(row.gradient, row.distance, products);
    }
    add_piece(d, sums, sum, rows.numbers);
    add_piece(d, sums + hn::Lanes(d), products, rows.numbers);
  });
  if (!c.places.channels_aside) {
    const double* const second = sums + hn::Lanes(d);
    const double products = std::accumulate(second, second + hn::Lanes(d), 0.0);
    sums[0] = std::accumulate(sums, sums + hn::Lanes(d), 0.0);
    sums[1] = products;
  }
  std::copy_n(sums, 2 * c.places.row_channels(), c.sums(group, part));
}

/// Writes the gradient of data of one part: a * gradient and, unless statistics are given,
/// + b * distance + c, where a group's first part keeps the sums of all.
template <bool kRelu, bool kGlobal, typename D>
HWY_INLINE void differentiate_part(D d, const NormCall& c, std::int64_t group, std::int64_t part) {
  const Normal<D> normal(d, c, group);
  Lanes slopes, shifts, variances, scales;
  hn::Store(of_group(d, c.places, group, c.variance, 1.0F), d, variances.at);
  hn::Store(normal.scale, d, scales.at);
  const double* const sums = c.sums(group, 0);
  const std::int64_t channels = c.places.row_channels();
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const double share = 1.0 / static_cast<double>(c.v.count());
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const std::int64_t from = c.places.channels_aside ? lane : 0;
    const double scale = static_cast<double>(scales.at[lane]) * share;
    const double variance = static_cast<double>(variances.at[lane]) + c.v.eps;
    slopes.at[lane] = static_cast<float>(-scale * sums[channels + from] / variance);
    shifts.at[lane] = static_cast<float>(-scale * sums[from]);
  }
  const auto slope = hn::Load(d, slopes.at), shift = hn::Load(d, shifts.at);
  for_rows(c.places, group, part, c.places.rows, [&](const NormRows& rows, auto whole) HWY_ATTR {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t at = rows.offset + i * c.places.row_step;
      const GradientRow<D> row = load_gradient<kRelu>(d, whole, c, normal, rows, at);
      auto result = hn::Mul(normal.scale, row.gradient);
      if constexpr (!kGlobal) result = hn::Add(result, hn::MulAdd(slope, row.distance, shift));
      if constexpr (decltype(whole)::value) {
        hn::StoreU(result, d, c.output + at);
      } else {
        store_some(d, result, c.output + at, rows.numbers);
      }
    }
  });
}

/// run(d) with the tag of so many lanes.
template <typename Run>
HWY_INLINE void with_lanes(std::int64_t lanes, Run&& run) {
  const hn::ScalableTag<float> widest;
  if (lanes == static_cast<std::int64_t>(hn::Lanes(widest))) {
    run(widest);
  } else {
    run(hn::CappedTag<float, kNarrowLanes>());
  }
}

void measure(const NormCall& c, std::int64_t group, std::int64_t part) {
  with_lanes(c.places.lanes, [&](auto d) HWY_ATTR { measure_part(d, c, group, part); });
}

void normalise(const NormCall& c, std::int64_t group, std::int64_t part) {
  with_lanes(c.places.lanes, [&](auto d) HWY_ATTR {
    if (c.v.epilogue.sum) {
      (c.streams ? normalise_part<true, true, decltype(d)>
                 : normalise_part<true, false, decltype(d)>)(d, c, group, part);
    } else {
      (c.streams ? normalise_part<false, true, decltype(d)>
                 : normalise_part<false, false, decltype(d)>)(d, c, group, part);
    }
  });
  if (c.streams) hwy::FlushStream();
}

void sum_gradients(const NormCall& c, std::int64_t group, std::int64_t part) {
  with_lanes(c.places.lanes, [&](auto d) HWY_ATTR {
    (c.v.epilogue.relu ? sum_part<true, decltype(d)> : sum_part<false, decltype(d)>)(d, c, group,
                                                                                     part);
  });
}

void differentiate(const NormCall& c, std::int64_t group, std::int64_t part) {
  with_lanes(c.places.lanes, [&](auto d) HWY_ATTR {
    if (c.v.global) {
      (c.v.epilogue.relu ? differentiate_part<true, true, decltype(d)>
                         : differentiate_part<false, true, decltype(d)>)(d, c, group, part);
    } else {
      (c.v.epilogue.relu ? differentiate_part<true, false, decltype(d)>
                         : differentiate_part<false, false, decltype(d)>)(d, c, group, part);
    }
  });
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(measure);
HWY_EXPORT(normalise);
HWY_EXPORT(sum_gradients);
HWY_EXPORT(differentiate);

namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

/// Outputs above this size would push more useful things out of the caches.
constexpr std::int64_t kStreamBytes = 8 << 20;
constexpr std::uintptr_t kStreamAlignment = 64;

/// Mean and variance of a group's channels from the moments of its parts.
void finish_moments(const NormCall& c, std::int64_t group) {
  const ChannelRows& p = c.places;
  for (std::int64_t i = 0; i < p.channels_of(group); ++i) {
    Moments whole;
    for (std::int64_t part = 0; part < p.parts; ++part) {
      const double* const moments = c.sums(group, part);
      const std::int64_t count =
          p.channels_aside ? p.rows_of(part) : p.rows_of(part) * p.lanes + p.rest;
      whole.join({static_cast<double>(count), moments[i], moments[p.row_channels() + i]});
    }
    const auto variance = static_cast<float>(whole.squares / whole.count);
    c.first[p.channel(group) + i] = static_cast<float>(whole.mean);
    // An infinite one would make all numbers beta, as if all were well.
    c.second[p.channel(group) + i] = std::isinf(variance) ? std::nanf("") : variance;
  }
}

/// Adds the sums of a group's parts, into those of the first, and writes the vectors' gradients.
void finish_sums(const NormCall& c, std::int64_t group) {
  const ChannelRows& p = c.places;
  double* const sums = c.sums(group, 0);
  for (std::int64_t part = 1; part < p.parts; ++part) {
    const double* const others = c.sums(group, part);
    for (std::int64_t i = 0; i < 2 * p.row_channels(); ++i) sums[i] += others[i];
  }
  for (std::int64_t i = 0; i < p.channels_of(group); ++i) {
    const std::int64_t channel = p.channel(group) + i;
    const double variance = static_cast<double>(c.variance[channel]) + c.v.eps;
    c.first[channel] =
        c.v.fix_gamma ? 0.0F : static_cast<float>(sums[p.row_channels() + i] / std::sqrt(variance));
    c.second[channel] = static_cast<float>(sums[i]);
  }
}

/// What the three kernels share: layouts, places and scratch.
class NormKernel : public Kernel {
 public:
  struct Plan {
    ChannelRows places;
    BatchNorm v;
    std::vector<Layout> inputs, outputs;
  };

  explicit NormKernel(Plan plan) : plan_(std::move(plan)) {}
  std::string name() const override { return "simd:norm"; }
  std::vector<Layout> input_layouts() const override { return plan_.inputs; }
  std::vector<Layout> output_layouts() const override { return plan_.outputs; }

 protected:
  std::size_t sums_bytes() const {
    const ChannelRows& p = plan_.places;
    return static_cast<std::size_t>(p.groups * p.parts * 2 * p.row_channels()) * sizeof(double);
  }
  NormCall start(const KernelContext& context) const {
    NormCall c;
    c.places = plan_.places;
    c.v = plan_.v;
    c.output = context.outputs[0].as<float>();
    c.scratch = reinterpret_cast<double*>(context.scratch.data());
    return c;
  }
  const BatchNorm& values() const { return plan_.v; }

 private:
  Plan plan_;
};

/// batch_norm and batch_norm_inference.
class ForwardKernel final : public NormKernel {
 public:
  using NormKernel::NormKernel;
  std::size_t scratch_bytes() const override { return values().global ? 0 : sums_bytes(); }

  Status run(const KernelContext& context) const override {
    NormCall c = start(context);
    c.data = context.inputs[0].as<float>();
    if (!c.v.fix_gamma) c.gamma = context.inputs[1].as<float>();
    c.beta = context.inputs[2].as<float>();
    if (c.v.epilogue.sum) c.addend = context.inputs.back().as<float>();
    const bool training = context.outputs.size() > 1;
    c.first = training ? context.outputs[1].as<float>() : nullptr;
    c.second = training ? context.outputs[2].as<float>() : nullptr;
    c.mean = c.v.global ? context.inputs[3].as<float>() : c.first;
    c.variance = c.v.global ? context.inputs[4].as<float>() : c.second;
    c.streams = streams(c, context.outputs[0].bytes());
    const auto measured = [&](auto group, auto part) {
      if (!c.v.global) HWY_DYNAMIC_DISPATCH(measure)(c, group, part);
    };
    const auto finished = [&](auto group) {
      if (!c.v.global) {
        finish_moments(c, group);
      } else if (training) {
        const std::int64_t first = c.places.channel(group), count = c.places.channels_of(group);
        std::copy_n(c.mean + first, count, c.first + first);
        std::copy_n(c.variance + first, count, c.second + first);
      }
    };
    run_groups(context, c.places, measured, finished, [&](auto group, auto part) {
      HWY_DYNAMIC_DISPATCH(normalise)(c, group, part);
    });
    return {};
  }

 private:
  /// Only memory that is not read for this is worth going past the caches.
  static bool streams(const NormCall& c, std::int64_t bytes) {
    const bool whole = c.places.padded && c.places.lanes == vector_lanes();
    return whole && bytes >= kStreamBytes && c.output != c.data && c.output != c.addend &&
           reinterpret_cast<std::uintptr_t>(c.output) % kStreamAlignment == 0;
  }
};

class BackwardKernel final : public NormKernel {
 public:
  using NormKernel::NormKernel;
  std::size_t scratch_bytes() const override { return sums_bytes(); }

  Status run(const KernelContext& context) const override {
    NormCall c = start(context);
    c.gradient = context.inputs[0].as<float>();
    c.data = context.inputs[1].as<float>();
    if (!c.v.fix_gamma) c.gamma = context.inputs[2].as<float>();
    c.mean = context.inputs[3].as<float>();
    c.variance = context.inputs[4].as<float>();
    if (c.v.epilogue.relu) c.beta = context.inputs[5].as<float>();
    c.first = context.outputs[1].as<float>();
    c.second = context.outputs[2].as<float>();
    run_groups(
        context, c.places,
        [&](auto group, auto part) {
          HWY_DYNAMIC_DISPATCH(sum_gradients)
          (c, group, part);
        },
        [&](auto group) { finish_sums(c, group); },
        [&](auto group, auto part) {
          HWY_DYNAMIC_DISPATCH(differentiate)
          (c, group, part);
        });
    return {};
  }
};

/// A call's places and layouts: tensors of data's shape have data's layout, vectors are dense.
Result<NormKernel::Plan> read_plan(const OpCall& call, std::size_t data_index) {
  const TensorDesc& data = call.inputs[data_index];
  if (!call.device.host_memory() || data.dtype != base::DType::f32) {
    return base::error(Errc::unimplemented, "only f32 on a CPU");
  }
  for (const WriteMode mode : call.modes) {
    if (mode != WriteMode::write) return base::error(Errc::unimplemented, "only writes");
  }
  if (data.shape.elements() == 0) return base::error(Errc::unimplemented, "empty tensor");
  std::vector<const TensorDesc*> tensors = {&data};
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *list) {
      if (tensor.shape.rank() > 1) tensors.push_back(&tensor);
    }
  }
  NormKernel::Plan plan;
  plan.v = read_batch_norm(call, data.shape);
  const Layout layout = followed_layout(tensors);
  TROUPE_TRY_ASSIGN(plan.places, read_channel_rows(data.shape, plan.v.axis, layout));
  const auto settle = [&](const std::vector<TensorDesc>& list,
                          std::vector<Layout>& layouts) -> Status {
    for (const TensorDesc& tensor : list) {
      layouts.push_back(tensor.shape.rank() > 1 ? layout : Layout::dense());
      TROUPE_TRY(check_layout(tensor, layouts.back()));
    }
    return {};
  };
  TROUPE_TRY(settle(call.inputs, plan.inputs));
  TROUPE_TRY(settle(call.outputs, plan.outputs));
  return plan;
}

Result<std::unique_ptr<Kernel>> forward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(NormKernel::Plan plan, read_plan(call, 0));
  return std::unique_ptr<Kernel>(std::make_unique<ForwardKernel>(std::move(plan)));
}

Result<std::unique_ptr<Kernel>> backward(const OpCall& call) {
  TROUPE_TRY_ASSIGN(NormKernel::Plan plan, read_plan(call, 1));
  return std::unique_ptr<Kernel>(std::make_unique<BackwardKernel>(std::move(plan)));
}

}  // namespace

std::span<const BackendKernel> kernels_batch_norm_simd() {
  static const std::vector<BackendKernel> kernels = {
      {"batch_norm", {"simd:norm", forward}},
      {"batch_norm_inference", {"simd:norm", forward}},
      {"batch_norm_backward", {"simd:norm", backward}},
  };
  return kernels;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
