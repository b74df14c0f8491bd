// SPDX-License-Identifier: Apache-2.0
// The gradient of the weights: transformed inputs times transformed gradients of outputs, summed
// over tiles, and then transformed back. Tiles are cut into parts and these into runs by the
// extents alone; the sums of runs and parts are added in order, so results do not depend on the
// team, and no sum in f32 has more than a thousand terms of tiles.
#include <algorithm>

#include "ops/support/chunks.h"
#include "ops/support/winograd.h"

// Tiles of registers are arrays of vectors, which scalable ones cannot form.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/winograd_gradient.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/winograd-inl.h"

#ifndef TROUPE_OPS_WINOGRAD_GRADIENT_ONCE
#define TROUPE_OPS_WINOGRAD_GRADIENT_ONCE
namespace troupe::ops {
/// Tiles that are multiplied together, and most such groups of a run.
inline constexpr std::int64_t kGroupTiles = 56, kRunGroups = 18;

/// A block of the weights, and some tiles.
struct WinogradSums {
  const Winograd& extents;
  const float* data;
  const float* gradient;
  std::int64_t channel, channels, filter, filters;  ///< first and number
  std::int64_t begin, end;                          ///< tiles
  float *inputs, *gradients, *sums;                 ///< scratch
  float* weight;  ///< (filters, channels, 3, 3) of the whole tensor
  bool adds;      ///< to what is in `weight`
  double* bias;   ///< of all filters; null: not wanted. Added to.
};
}  // namespace troupe::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops {
namespace HWY_NAMESPACE {

// As many sums as the registers hold beside what is multiplied.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 14;
#else
constexpr int kRows = 6;
#endif
constexpr int kVectorsMost = 2;

/// sums[row][vector] += sum over tiles of inputs[tile][row] * gradients[tile][vector].
template <int kTileRows, int kVectors>
HWY_INLINE void add_tile(Rows<const float> inputs, Rows<const float> gradients, std::int64_t tiles,
                         Rows<float> to) {
  const Lanes d;
  Vector sums[kTileRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = hn::Load(d, to.at + r * to.stride + v * lanes());
  }
  for (; tiles > 0; --tiles, inputs.at += inputs.stride, gradients.at += gradients.stride) {
    Vector factors[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) factors[v] = hn::Load(d, gradients.at + v * lanes());
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      const Vector input = hn::Set(d, inputs.at[r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(input, factors[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      hn::Store(sums[r][v], d, to.at + r * to.stride + v * lanes());
  }
}

template <int kTileRows, int kVectors>
void add_rows(Rows<const float> inputs, Rows<const float> gradients, std::int64_t tiles,
              Rows<float> to, std::int64_t rows) {
  if constexpr (kTileRows > 1) {
    if (rows < kTileRows) {
      return add_rows<kTileRows - 1, kVectors>(inputs, gradients, tiles, to, rows);
    }
  }
  add_tile<kTileRows, kVectors>(inputs, gradients, tiles, to);
}

/// All channels of the block times one or two vectors of filters.
template <int kVectors>
void add_panel(Rows<const float> inputs, Rows<const float> gradients, std::int64_t tiles,
               Rows<float> to, std::int64_t rows) {
  while (rows > 0) {
    const std::int64_t parts = (rows + kRows - 1) / kRows;
    const std::int64_t part = (rows + parts - 1) / parts;
    add_rows<kRows, kVectors>(inputs, gradients, tiles, to, part);
    inputs = inputs.from(0, part);
    to = to.from(part, 0);
    rows -= part;
  }
}

/// Transforms the gradients of tiles [first, first + count) for the block's filters; adds up the
/// bias's.
template <bool kBias>
void transform_gradients(const WinogradSums& s, std::int64_t first, std::int64_t count,
                         const TileSlabs& slabs) {
  const Lanes d;
  const Winograd& w = s.extents;
  // Copies that no store can change stay in registers.
  const std::int64_t step = lanes(), width = w.out_width, height = w.out_height;
  const std::int64_t plane = height * width * step, slab = slabs.slab;
  for (std::int64_t filter = 0; filter < s.filters; filter += step) {
    Vector bias[kTile] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    const std::int64_t block = (s.filter + filter) / step;
    TilePlace at = place_of(w, first);
    for (std::int64_t i = 0; i < count; ++i, advance(w, at)) {
      const float* const from = s.gradient + (at.image * (w.filters / step) + block) * plane +
                                (at.row * width + at.column) * step;
      float* const out = s.gradients + i * slabs.row + filter;
      const std::int64_t rows = height - at.row, columns = width - at.column;
      const auto transform = [](const Vector* y, Vector* z) HWY_ATTR { transform_gradient(y, z); };
      const auto load = [=, &bias](int row, int column) HWY_ATTR {
        const Vector value = hn::LoadU(d, from + (row * width + column) * step);
        if constexpr (kBias) bias[column] = hn::Add(bias[column], value);
        return value;
      };
      const auto store = [=](int row, int column, Vector value) HWY_ATTR {
        hn::Store(value, d, out + (row * kPatch + column) * slab);
      };
      if (rows >= kTile && columns >= kTile) {
        transform_twice<kTile, kPatch>(transform, load, store);
      } else {
        transform_twice<kTile, kPatch>(
            transform,
            [&](int row, int column) HWY_ATTR {
              return row < rows && column < columns ? load(row, column) : hn::Zero(d);
            },
            store);
      }
    }
    if constexpr (kBias) {
      HWY_ALIGN float sums[hn::MaxLanes(d)];
      hn::Store(hn::Add(hn::Add(bias[0], bias[1]), hn::Add(bias[2], bias[3])), d, sums);
      for (std::int64_t lane = 0; lane < step; ++lane) {
        s.bias[s.filter + filter + lane] += sums[lane];
      }
    }
  }
}

/// The block's sums of a run, transformed back.
void finish_weights(const WinogradSums& s, std::int64_t sum_row, std::int64_t sum_slab) {
  constexpr int kSide = 3, kTaps = kSide * kSide;
  const Lanes d;
  HWY_ALIGN float values[kTaps * hn::MaxLanes(d)];
  for (std::int64_t filter = 0; filter < s.filters; filter += lanes()) {
    for (std::int64_t channel = 0; channel < s.channels; ++channel) {
      const float* const from = s.sums + channel * sum_row + filter;
      transform_twice<kPatch, kSide>(
          [](const Vector* u, Vector* g) HWY_ATTR { transform_factors(u, g); },
          [&](int row, int column)
              HWY_ATTR { return hn::Load(d, from + (row * kPatch + column) * sum_slab); },
          [&](int row, int column, Vector value)
              HWY_ATTR { hn::Store(value, d, values + (row * kSide + column) * lanes()); });
      for (std::int64_t lane = 0; lane < lanes(); ++lane) {
        float* const to =
            s.weight +
            ((s.filter + filter + lane) * s.extents.channels + s.channel + channel) * kTaps;
        for (int t = 0; t < kTaps; ++t) {
          const float value = values[t * lanes() + lane];
          to[t] = s.adds ? to[t] + value : value;
        }
      }
    }
  }
}

/// The block's gradient over one run of tiles.
void sum_run(const WinogradSums& s) {
  const TileSlabs inputs(kGroupTiles, kWinogradBlock, lanes());
  const TileSlabs gradients(kGroupTiles, kWinogradBlock, lanes());
  const TileSlabs sums(kWinogradBlock, kWinogradBlock, lanes());
  std::fill_n(s.sums, sums.elements(), 0.0F);
  for (std::int64_t first = s.begin; first < s.end; first += kGroupTiles) {
    const std::int64_t count = std::min(kGroupTiles, s.end - first);
    transform_inputs(s.extents, s.data, {first, count, s.channel, s.channel + s.channels}, inputs,
                     s.inputs);
    (s.bias == nullptr ? transform_gradients<false> : transform_gradients<true>)(s, first, count,
                                                                                 gradients);
    const std::int64_t panel = kVectorsMost * lanes();
    for (int slab = 0; slab < kProducts; ++slab) {
      for (std::int64_t filter = 0; filter < s.filters; filter += panel) {
        const bool whole = s.filters - filter >= panel;
        (whole ? add_panel<kVectorsMost>
               : add_panel<1>)({s.inputs + slab * inputs.slab, inputs.row},
                               {s.gradients + slab * gradients.slab + filter, gradients.row}, count,
                               {s.sums + slab * sums.slab + filter, sums.row}, s.channels);
      }
    }
  }
  finish_weights(s, sums.row, sums.slab);
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(sum_run);

/// Pieces of work that are wanted at least, and what sums of parts may take.
constexpr std::int64_t kPiecesWanted = 32, kKeptBytes = 1'900'000;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t slabs(std::int64_t tiles, std::int64_t channels) {
  return TileSlabs(tiles, channels, winograd_lanes()).elements();
}

/// Scratch of one thread.
std::int64_t thread_elements() {
  return slabs(kGroupTiles, kWinogradBlock) + slabs(kGroupTiles, kWinogradBlock) +
         slabs(kWinogradBlock, kWinogradBlock);
}

std::int64_t weight_elements(const Winograd& w) {
  constexpr std::int64_t kTaps = 9;
  return w.filters * w.channels * kTaps;
}

}  // namespace

WinogradGradient::WinogradGradient(const Winograd& extents, int team)
    : extents_(extents), team_(team) {
  const std::int64_t blocks =
      ceil_div(extents.channels, kWinogradBlock) * ceil_div(extents.filters, kWinogradBlock);
  const std::int64_t groups = std::max<std::int64_t>(1, ceil_div(extents.tiles(), kGroupTiles));
  const std::int64_t room =
      kKeptBytes / (weight_elements(extents) * static_cast<std::int64_t>(sizeof(float)));
  parts_ = std::clamp<std::int64_t>(room, 1, std::min(ceil_div(kPiecesWanted, blocks), groups));
}

std::size_t WinogradGradient::scratch_bytes() const {
  const std::int64_t kept = parts_ == 1 ? 0 : parts_ * weight_elements(extents_);
  return static_cast<std::size_t>(team_ * thread_elements() + kept) * sizeof(float) +
         static_cast<std::size_t>(parts_ * extents_.filters) * sizeof(double);
}

void WinogradGradient::run(const KernelContext& context, const float* data, const float* gradient,
                           float* weight, float* bias) const {
  const Winograd& w = extents_;
  const std::int64_t elements = weight_elements(w);
  auto* const biases = reinterpret_cast<double*>(context.scratch.data());
  auto* const scratch = reinterpret_cast<float*>(biases + parts_ * w.filters);
  float* const kept = parts_ == 1 ? weight : scratch + team_ * thread_elements();
  std::fill_n(biases, parts_ * w.filters, 0.0);
  const std::int64_t groups = ceil_div(w.tiles(), kGroupTiles);
  const std::int64_t across = ceil_div(w.channels, kWinogradBlock);
  const std::int64_t down = ceil_div(w.filters, kWinogradBlock);
  const std::int64_t blocks = across * down;
  const auto sum_block = [&](std::int64_t part, std::int64_t block, std::int64_t first,
                             float* own) {
    const std::int64_t end = groups * (part + 1) / parts_;
    const std::int64_t channel = block % across * kWinogradBlock;
    const std::int64_t filter = block / across * kWinogradBlock;
    float* const gradients = own + slabs(kGroupTiles, kWinogradBlock);
    HWY_DYNAMIC_DISPATCH(sum_run)
    ({w, data, gradient, channel, std::min(kWinogradBlock, w.channels - channel), filter,
      std::min(kWinogradBlock, w.filters - filter), first * kGroupTiles,
      std::min(w.tiles(), std::min(first + kRunGroups, end) * kGroupTiles), own, gradients,
      gradients + slabs(kGroupTiles, kWinogradBlock), kept + part * (parts_ == 1 ? 0 : elements),
      first > groups * part / parts_,
      bias == nullptr || channel > 0 ? nullptr : biases + part * w.filters});
  };
  context.parallel(team_, [&](std::int64_t thread) {
    float* const own = scratch + thread * thread_elements();
    for (std::int64_t part = 0; part < parts_; ++part) {
      const std::int64_t begin = groups * part / parts_, end = groups * (part + 1) / parts_;
      // All blocks of a run before the next one: they read the same tiles, from the last cache.
      for (std::int64_t first = begin; first < end; first += kRunGroups) {
        for (std::int64_t block = 0; block < blocks; ++block) {
          if ((part * blocks + block) % team_ == thread) sum_block(part, block, first, own);
        }
      }
    }
  });
  if (parts_ > 1) {
    parallel_ranges(context, elements, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float sum = kept[i];
        for (std::int64_t part = 1; part < parts_; ++part) sum += kept[part * elements + i];
        weight[i] = sum;
      }
    });
  }
  if (bias == nullptr) return;
  for (std::int64_t filter = 0; filter < w.filters; ++filter) {
    double sum = 0.0;
    for (std::int64_t part = 0; part < parts_; ++part) sum += biases[part * w.filters + filter];
    bias[filter] = static_cast<float>(sum);
  }
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
