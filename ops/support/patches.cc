// SPDX-License-Identifier: Apache-2.0
// Gathering by vectors that may reach into what is written next, and products of blocks of rows.
#include "ops/support/patches.h"

#include <algorithm>

#include "ops/support/product_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/patches.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/tail-inl.h"

#ifndef TROUPE_OPS_PATCHES_ONCE
#define TROUPE_OPS_PATCHES_ONCE
namespace troupe::ops {
/// Copies of runs of numbers.
struct PatchRuns {
  const float* from = nullptr;  ///< the first run of the first row; null where they are added:
  float* sums = nullptr;        ///< `to` to these
  float* to = nullptr;
  std::int64_t rows = 0, from_row = 0, to_row = 0;
  std::int64_t lines = 0, from_line = 0;  ///< of a row: lines of runs,
  std::int64_t runs = 0, from_run = 0;    ///< which follow each other in `to`
  std::int64_t numbers = 0;               ///< of a run
};

/// A matrix to be transposed: to[column * to_step + row] = from[row * from_step + column].
struct PatchTurn {
  const float* from = nullptr;
  float* to = nullptr;
  std::int64_t rows = 0, columns = 0, from_step = 0, to_step = 0;
};

/// Numbers behind what copies by vectors are asked for, which they may read or write.
inline constexpr std::int64_t kPatchSlack = 64;
}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Whole vectors: what is behind a run is overwritten by the next one, so they are taken in order.
void copy_runs(const PatchRuns& shared) {
  const PatchRuns p = shared;
  const hn::CappedTag<float, 16> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float* line = p.from + row * p.from_row;
    float* to = p.to + row * p.to_row;
    for (std::int64_t y = 0; y < p.lines; ++y, line += p.from_line) {
      const float* from = line;
      for (std::int64_t run = 0; run < p.runs; ++run, from += p.from_run, to += p.numbers) {
        for (std::int64_t i = 0; i < p.numbers; i += step) {
          hn::StoreU(hn::LoadU(d, from + i), d, to + i);
        }
      }
    }
  }
}

/// Adds what copy_runs() would copy, where the runs of rows lie in each other's `to`.
void add_runs(const PatchRuns& shared) {
  const PatchRuns p = shared;
  const hn::CappedTag<float, 16> d;
  using D = decltype(d);
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = p.numbers / step * step;
  const Tail<D> tail(d, p.numbers - whole);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float* from = p.to + row * p.to_row;
    float* line = p.sums + row * p.from_row;
    for (std::int64_t y = 0; y < p.lines; ++y, line += p.from_line) {
      float* to = line;
      for (std::int64_t run = 0; run < p.runs; ++run, to += p.from_run, from += p.numbers) {
        for (std::int64_t i = 0; i < whole; i += step) {
          hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
        }
        if (whole == p.numbers) continue;
        tail.store(hn::Add(tail.load(to + whole), tail.load(from + whole)), to + whole);
      }
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
constexpr std::int64_t kTurned = 1;

HWY_INLINE void turn_square(const float* from, std::int64_t, float* to, std::int64_t) {
  *to = *from;
}
#else
constexpr std::int64_t kTurned = 4;

HWY_INLINE void turn_square(const float* from, std::int64_t from_step, float* to,
                            std::int64_t to_step) {
  const hn::CappedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_step);
  const auto e = hn::LoadU(d, from + 2 * from_step), f = hn::LoadU(d, from + 3 * from_step);
  const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ef = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
  const auto upper_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto upper_ef = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
  const auto put = [&](std::int64_t place, auto value)
                       HWY_ATTR { hn::StoreU(hn::BitCast(d, value), d, to + place * to_step); };
  put(0, hn::InterleaveLower(pairs, ab, ef));
  put(1, hn::InterleaveUpper(pairs, ab, ef));
  put(2, hn::InterleaveLower(pairs, upper_ab, upper_ef));
  put(3, hn::InterleaveUpper(pairs, upper_ab, upper_ef));
}
#endif

void turn(const PatchTurn& shared) {
  const PatchTurn p = shared;
  const std::int64_t rows = p.rows / kTurned * kTurned, columns = p.columns / kTurned * kTurned;
  for (std::int64_t r = 0; r < rows; r += kTurned) {
    for (std::int64_t c = 0; c < columns; c += kTurned) {
      turn_square(p.from + r * p.from_step + c, p.from_step, p.to + c * p.to_step + r, p.to_step);
    }
  }
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t c = r < rows ? columns : 0; c < p.columns; ++c) {
      p.to[c * p.to_step + r] = p.from[r * p.from_step + c];
    }
  }
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(copy_runs);
HWY_EXPORT(add_runs);
HWY_EXPORT(turn);

namespace {

constexpr std::int64_t kPad = 16;

std::int64_t padded(std::int64_t count) {
  return (count + kPad - 1) / kPad * kPad;
}

/// Numbers of gathered rows that a cache holds beside what they are multiplied with.
constexpr std::int64_t kRowsElements = 1 << 16;
/// Rows whose products are summed in one go.
constexpr std::int64_t kMostRows = 1024;
/// Chunks of images whose sums are taken apart.
constexpr std::int64_t kChunks = 8;

}  // namespace

Patches::Patches(const Convolution& convolution, bool one)
    : v_(convolution),
      one_(one),
      numbers_(v_.in * v_.taps()),
      row_(padded(numbers_ + (one ? 1 : 0))),
      most_rows_(std::clamp<std::int64_t>(kRowsElements / row_ / 8 * 8, 8, kMostRows)),
      height_(v_.input[0] + 2 * v_.window[0].pad),
      width_(v_.input[1] + 2 * v_.window[1].pad) {}

std::int64_t Patches::image_elements() const {
  return padded(height_ * width_ * v_.in) + kPatchSlack;
}

std::int64_t Patches::rows_elements() const {
  return std::min(most_rows_, v_.output_plane()) * row_ + kPatchSlack;
}

void Patches::place(const float* image, float* to) const {
  const std::int64_t top = v_.window[0].pad, left = v_.window[1].pad;
  const std::int64_t row = width_ * v_.in;
  if (top + left > 0) std::fill_n(to, height_ * row, 0.0F);
  for (std::int64_t y = 0; y < v_.input[0]; ++y) {
    float* const line = to + (y + top) * row + left * v_.in;
    HWY_DYNAMIC_DISPATCH(turn)
    ({image + y * v_.input[1], line, v_.in, v_.input[1], v_.input_plane(), v_.in});
  }
}

void Patches::take(const float* image, float* to) const {
  for (std::int64_t y = 0; y < v_.input[0]; ++y) {
    const std::int64_t place = (y + v_.window[0].pad) * width_ + v_.window[1].pad;
    HWY_DYNAMIC_DISPATCH(turn)
    ({image + place * v_.in, to + y * v_.input[1], v_.input[1], v_.in, v_.in, v_.input_plane()});
  }
}

/// f(runs, image offset) for the windows [begin, begin + count) of each line of them.
template <typename F>
void Patches::for_lines(std::int64_t begin, std::int64_t count, float* rows, F&& f) const {
  const Window &down = v_.window[0], &across = v_.window[1];
  const bool joined = across.dilate == 1;  // the taps of a row are one run
  PatchRuns runs;
  runs.from_row = across.stride * v_.in;
  runs.to_row = row_;
  runs.lines = down.kernel;
  runs.from_line = down.dilate * width_ * v_.in;
  runs.runs = joined ? 1 : across.kernel;
  runs.from_run = across.dilate * v_.in;
  runs.numbers = joined ? across.kernel * v_.in : v_.in;
  for (std::int64_t at = begin; at < begin + count; at += runs.rows) {
    const std::int64_t y = at / v_.output[1], x = at % v_.output[1];
    runs.rows = std::min(v_.output[1] - x, begin + count - at);
    runs.to = rows + (at - begin) * row_;
    f(runs, (y * down.stride * width_ + x * across.stride) * v_.in);
  }
}

void Patches::gather(const float* image, std::int64_t begin, std::int64_t count, float* to) const {
  for_lines(begin, count, to, [&](PatchRuns runs, std::int64_t offset) {
    runs.from = image + offset;
    HWY_DYNAMIC_DISPATCH(copy_runs)(runs);
  });
  for (std::int64_t i = 0; one_ && i < count; ++i) to[i * row_ + numbers_] = 1.0F;
}

void Patches::scatter(float* rows, std::int64_t begin, std::int64_t count, float* image) const {
  for_lines(begin, count, rows, [&](PatchRuns runs, std::int64_t offset) {
    runs.sums = image + offset;
    HWY_DYNAMIC_DISPATCH(add_runs)(runs);
  });
}

PatchConvolution::PatchConvolution(const Convolution& convolution, bool biased, int team)
    : v_(convolution), patches_(convolution, biased), team_(team), filters_(padded(v_.out)) {}

std::size_t PatchConvolution::scratch_bytes() const {
  const std::int64_t each = patches_.image_elements() + patches_.rows_elements();
  return static_cast<std::size_t>(patches_.row() * filters_ + team_ * each) * sizeof(float);
}

/// Row i of `to` has what number i of a patch is multiplied with, for all filters.
void PatchConvolution::lay_out_weights(const KernelContext& context, const float* weight,
                                       const float* bias, float* to) const {
  const std::int64_t taps = v_.taps();
  context.parallel(v_.in, [&](std::int64_t channel) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      float* const row = to + (tap * v_.in + channel) * filters_;
      for (std::int64_t filter = 0; filter < v_.out; ++filter) {
        row[filter] = weight[(filter * v_.in + channel) * taps + tap];
      }
    }
  });
  if (bias != nullptr) std::copy_n(bias, v_.out, to + patches_.numbers() * filters_);
}

void PatchConvolution::run(const KernelContext& context, const float* data, const float* weight,
                           const float* bias, float* output) const {
  auto* const laid_out = reinterpret_cast<float*>(context.scratch.data());
  lay_out_weights(context, weight, bias, laid_out);
  const std::int64_t plane = v_.output_plane(), most = patches_.most_rows();
  const std::int64_t each = patches_.image_elements() + patches_.rows_elements();
  context.parallel(team_, [&](std::int64_t member) {
    float* const image = laid_out + patches_.row() * filters_ + member * each;
    float* const rows = image + patches_.image_elements();
    for (std::int64_t n = member; n < v_.batch; n += team_) {
      patches_.place(data + n * v_.in * v_.input_plane(), image);
      for (std::int64_t at = 0; at < plane; at += most) {
        const std::int64_t count = std::min(most, plane - at);
        patches_.gather(image, at, count, rows);
        ProductBlock block{};
        block.left = rows;
        block.left_row = patches_.row();
        block.left_inner = 1;
        block.right = laid_out;
        block.right_inner = filters_;
        block.out = output + n * v_.out * plane + at;
        block.out_stride = plane;
        block.rows = count;
        block.columns = v_.out;
        block.inner = patches_.numbers() + (bias == nullptr ? 0 : 1);
        block.transposed = true;
        multiply_product_block(block);
      }
    }
  });
}

PatchScatter::PatchScatter(const Convolution& convolution, int team)
    : v_(convolution), patches_(convolution, false), team_(team) {}

std::size_t PatchScatter::scratch_bytes() const {
  const std::int64_t each = patches_.image_elements() + patches_.rows_elements();
  return static_cast<std::size_t>(v_.out * patches_.row() + team_ * each) * sizeof(float);
}

void PatchScatter::run(const KernelContext& context, const float* gradient, const float* weight,
                       float* output) const {
  auto* const laid_out = reinterpret_cast<float*>(context.scratch.data());
  const std::int64_t row = patches_.row(), taps = v_.taps();
  context.parallel(v_.out, [&](std::int64_t filter) {
    HWY_DYNAMIC_DISPATCH(turn)
    ({weight + filter * patches_.numbers(), laid_out + filter * row, v_.in, taps, taps, v_.in});
  });
  const std::int64_t plane = v_.output_plane(), most = patches_.most_rows();
  const std::int64_t each = patches_.image_elements() + patches_.rows_elements();
  context.parallel(team_, [&](std::int64_t member) {
    float* const image = laid_out + v_.out * row + member * each;
    float* const rows = image + patches_.image_elements();
    for (std::int64_t n = member; n < v_.batch; n += team_) {
      std::fill_n(image, patches_.image_elements(), 0.0F);
      for (std::int64_t at = 0; at < plane; at += most) {
        const std::int64_t count = std::min(most, plane - at);
        ProductBlock block{};
        block.left = gradient + n * v_.out * plane + at;
        block.left_row = 1;
        block.left_inner = plane;
        block.right = laid_out;
        block.right_inner = row;
        block.out = rows;
        block.out_stride = row;
        block.rows = count;
        block.columns = patches_.numbers();
        block.inner = v_.out;
        multiply_product_block(block);
        patches_.scatter(rows, at, count, image);
      }
      patches_.take(image, output + n * v_.in * v_.input_plane());
    }
  });
}

PatchGradient::PatchGradient(const Convolution& convolution, bool biased, int team)
    : v_(convolution),
      patches_(convolution, biased),
      team_(team),
      chunks_(std::min(v_.batch, kChunks)) {}

std::size_t PatchGradient::scratch_bytes() const {
  const std::int64_t each = patches_.image_elements() + patches_.rows_elements();
  return static_cast<std::size_t>(chunks_ * v_.out * patches_.row() + team_ * each) * sizeof(float);
}

/// The sums of a chunk's images by filters and numbers of a patch.
void PatchGradient::sum_images(const float* gradient, const float* data, std::int64_t chunk,
                               float* work, float* sums) const {
  float* const rows = work + patches_.image_elements();
  const std::int64_t plane = v_.output_plane(), most = patches_.most_rows();
  for (std::int64_t n = chunk; n < v_.batch; n += chunks_) {
    patches_.place(data + n * v_.in * v_.input_plane(), work);
    for (std::int64_t at = 0; at < plane; at += most) {
      const std::int64_t count = std::min(most, plane - at);
      patches_.gather(work, at, count, rows);
      ProductBlock block{};
      block.left = gradient + n * v_.out * plane + at;
      block.left_row = plane;
      block.left_inner = 1;
      block.right = rows;
      block.right_inner = patches_.row();
      block.out = sums;
      block.out_stride = patches_.row();
      block.rows = v_.out;
      block.columns = patches_.numbers() + (patches_.one() ? 1 : 0);
      block.inner = count;
      block.add = n != chunk || at != 0;
      multiply_product_block(block);
    }
  }
}

void PatchGradient::finish(const KernelContext& context, const float* sums,
                           const Outputs& outputs) const {
  const std::int64_t row = patches_.row(), numbers = patches_.numbers(), taps = v_.taps();
  const auto put = [](float* place, double total, bool adds) {
    const auto value = static_cast<float>(total);
    *place = adds ? *place + value : value;
  };
  context.parallel(v_.out, [&](std::int64_t filter) {
    const auto total = [&](std::int64_t i) {
      double sum = 0.0;
      for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
        sum += static_cast<double>(sums[(chunk * v_.out + filter) * row + i]);
      }
      return sum;
    };
    float* const weight = outputs.weight + filter * numbers;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t channel = 0; channel < v_.in; ++channel) {
        put(weight + channel * taps + tap, total(tap * v_.in + channel), outputs.adds_weight);
      }
    }
    if (outputs.bias != nullptr) put(outputs.bias + filter, total(numbers), outputs.adds_bias);
  });
}

void PatchGradient::run(const KernelContext& context, const float* gradient, const float* data,
                        const Outputs& outputs) const {
  auto* const sums = reinterpret_cast<float*>(context.scratch.data());
  const std::int64_t of_chunk = v_.out * patches_.row();
  const std::int64_t each = patches_.image_elements() + patches_.rows_elements();
  context.parallel(team_, [&](std::int64_t member) {
    float* const work = sums + chunks_ * of_chunk + member * each;
    for (std::int64_t chunk = member; chunk < chunks_; chunk += team_) {
      sum_images(gradient, data, chunk, work, sums + chunk * of_chunk);
    }
  });
  finish(context, sums, outputs);
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
