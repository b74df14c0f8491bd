// SPDX-License-Identifier: Apache-2.0
// Gathering by vectors that may reach into what is written next, and products of blocks of rows.
#include "ops/support/patches.h"

#include <algorithm>

#include "ops/support/product_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/patches.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef TROUPE_OPS_PATCHES_ONCE
#define TROUPE_OPS_PATCHES_ONCE
namespace troupe::ops {
/// Copies of runs of numbers.
struct PatchRuns {
  const float* from = nullptr;  ///< the first run of the first row
  float* to = nullptr;
  std::int64_t rows = 0, from_row = 0, to_row = 0;
  std::int64_t runs = 0, from_run = 0;  ///< of a row; in `to` they follow each other
  std::int64_t numbers = 0;             ///< of a run
};

/// Planes of one row of an image, to channels last.
struct PatchLine {
  const float* from = nullptr;
  float* to = nullptr;
  std::int64_t channels = 0, plane = 0, width = 0;
};

/// Numbers behind what copies by vectors are asked for, which they may read or write.
inline constexpr std::int64_t kPatchSlack = 64;
}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Whole vectors: what is behind a run is overwritten by the next one.
void copy_runs(const PatchRuns& shared) {
  const PatchRuns p = shared;
  const hn::CappedTag<float, 16> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float* from = p.from + row * p.from_row;
    float* to = p.to + row * p.to_row;
    for (std::int64_t run = 0; run < p.runs; ++run, from += p.from_run, to += p.numbers) {
      for (std::int64_t i = 0; i < p.numbers; i += step) {
        hn::StoreU(hn::LoadU(d, from + i), d, to + i);
      }
    }
  }
}

/// Four channels of four places at a time.
void turn_line(const PatchLine& shared) {
  const PatchLine p = shared;
  const hn::CappedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const std::int64_t whole = p.width / 4 * 4, quads = hn::Lanes(d) == 4 ? p.channels / 4 * 4 : 0;
  for (std::int64_t c = 0; c < quads; c += 4) {
    const float* from = p.from + c * p.plane;
    float* to = p.to + c;
    for (std::int64_t x = 0; x < whole; x += 4, to += 4 * p.channels) {
      const auto a = hn::LoadU(d, from + x), b = hn::LoadU(d, from + p.plane + x);
      const auto e = hn::LoadU(d, from + 2 * p.plane + x);
      const auto f = hn::LoadU(d, from + 3 * p.plane + x);
      const auto ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
      const auto ef = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
      const auto upper_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
      const auto upper_ef = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
      const auto put = [&](std::int64_t place, auto value) HWY_ATTR {
        hn::StoreU(hn::BitCast(d, value), d, to + place * p.channels);
      };
      put(0, hn::InterleaveLower(pairs, ab, ef));
      put(1, hn::InterleaveUpper(pairs, ab, ef));
      put(2, hn::InterleaveLower(pairs, upper_ab, upper_ef));
      put(3, hn::InterleaveUpper(pairs, upper_ab, upper_ef));
    }
  }
  for (std::int64_t c = 0; c < p.channels; ++c) {
    for (std::int64_t x = c < quads ? whole : 0; x < p.width; ++x) {
      p.to[x * p.channels + c] = p.from[c * p.plane + x];
    }
  }
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {

HWY_EXPORT(copy_runs);
HWY_EXPORT(turn_line);

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
    HWY_DYNAMIC_DISPATCH(turn_line)
    ({image + y * v_.input[1], line, v_.in, v_.input_plane(), v_.input[1]});
  }
}

void Patches::gather(const float* image, std::int64_t begin, std::int64_t count, float* to) const {
  const Window &down = v_.window[0], &across = v_.window[1];
  const bool joined = across.dilate == 1;  // the taps of a row are one run
  PatchRuns runs;
  runs.from_row = across.stride * v_.in;
  runs.to_row = row_;
  runs.numbers = joined ? across.kernel * v_.in : v_.in;
  for (std::int64_t at = begin; at < begin + count; at += runs.rows) {
    const std::int64_t y = at / v_.output[1], x = at % v_.output[1];
    runs.rows = std::min(v_.output[1] - x, begin + count - at);
    float* const first = to + (at - begin) * row_;
    // Later runs go over what earlier ones spill, so the rows of a line are filled run by run.
    for (std::int64_t ky = 0; ky < down.kernel; ++ky) {
      const std::int64_t line = (y * down.stride + ky * down.dilate) * width_;
      const float* const from = image + (line + x * across.stride) * v_.in;
      for (std::int64_t kx = 0; kx < (joined ? 1 : across.kernel); ++kx) {
        runs.from = from + kx * across.dilate * v_.in;
        runs.to = first + (ky * across.kernel + kx) * v_.in;
        runs.runs = 1;
        HWY_DYNAMIC_DISPATCH(copy_runs)(runs);
      }
    }
  }
  for (std::int64_t i = 0; one_ && i < count; ++i) to[i * row_ + numbers_] = 1.0F;
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
