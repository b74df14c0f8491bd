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
inline constexpr std::int64_t kGroupTiles = 42, kRunGroups = 24;

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

/// Filters that are multiplied together.
HWY_INLINE std::int64_t panel_filters() {
  return kVectorsMost * lanes();
}

/// Where the sums of a block lie: 36 slabs of (panel, channel, filter in the panel). What one tile
/// of registers takes are neighbours, at distances that are known to the compiler.
TileSlabs sums_of(std::int64_t channels, std::int64_t filters) {
  const std::int64_t panels = (filters + panel_filters() - 1) / panel_filters();
  return {panels * channels, panel_filters(), lanes()};
}

/// Two rows of numbers that are fetched while something else is multiplied.
struct Fetched {
  struct Range {
    const float* at;
    std::int64_t floats;
  };
  Range inputs, gradients;

  /// The share `index` of `count`.
  Fetched share(std::int64_t index, std::int64_t count) const {
    const auto part = [&](const Range& range) {
      const std::int64_t begin = range.floats * index / count;
      return Range{range.at + begin, range.floats * (index + 1) / count - begin};
    };
    return {part(inputs), part(gradients)};
  }
  void take() const {
    constexpr std::int64_t kLine = 16;
    for (const Range& range : {inputs, gradients}) {
      for (std::int64_t i = 0; i < range.floats; i += kLine) fetch(range.at + i);
    }
  }
};

/// sums[row][vector] += sum over tiles of inputs[tile][row] * gradients[tile][vector].
template <int kTileRows, int kVectors>
HWY_INLINE void add_tile(Rows<const float> inputs, Rows<const float> gradients, std::int64_t tiles,
                         float* to) {
  const Lanes d;
  Vector sums[kTileRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = hn::Load(d, to + (r * kVectorsMost + v) * lanes());
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
      hn::Store(sums[r][v], d, to + (r * kVectorsMost + v) * lanes());
  }
}

template <int kTileRows, int kVectors>
void add_rows(Rows<const float> inputs, Rows<const float> gradients, std::int64_t tiles, float* to,
              std::int64_t rows) {
  if constexpr (kTileRows > 1) {
    if (rows < kTileRows) {
      return add_rows<kTileRows - 1, kVectors>(inputs, gradients, tiles, to, rows);
    }
  }
  add_tile<kTileRows, kVectors>(inputs, gradients, tiles, to);
}

/// All channels of the block times one or two vectors of filters.
template <int kVectors>
void add_panel(Rows<const float> inputs, Rows<const float> gradients, std::int64_t tiles, float* to,
               std::int64_t rows, const Fetched& next) {
  const std::int64_t all = (rows + kRows - 1) / kRows;
  for (std::int64_t parts = all; parts > 0; --parts) {
    const std::int64_t part = (rows + parts - 1) / parts;
    next.share(all - parts, all).take();
    add_rows<kRows, kVectors>(inputs, gradients, tiles, to, part);
    inputs = inputs.from(0, part);
    to += part * panel_filters();
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
  const auto corner_of = [&](const TilePlace& at, std::int64_t filter) HWY_ATTR {
    return s.gradient + (at.image * (w.filters / step) + filter / step) * plane +
           (at.row * width + at.column) * step;
  };
  TileWalk ahead = walk_ahead(w, {first, count, s.filter, s.filter + s.filters});
  for (std::int64_t filter = 0; filter < s.filters; filter += step) {
    Vector bias[kTile] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    TilePlace at = place_of(w, first);
    for (std::int64_t i = 0; i < count; ++i, advance(w, at)) {
      const float* const from = corner_of(at, s.filter + filter);
      float* const out = s.gradients + i * slabs.row + filter;
      fetch_products(out + kStoresAhead * slabs.row, slab);
      if (!ahead.done()) {
        fetch_tile(corner_of(ahead.at, ahead.channel), width);
        ahead.next();
      }
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
void finish_weights(const WinogradSums& s, std::int64_t sum_slab) {
  constexpr int kSide = 3, kTaps = kSide * kSide;
  const Lanes d;
  HWY_ALIGN float values[kTaps * hn::MaxLanes(d)];
  const std::int64_t panel = panel_filters();
  for (std::int64_t filter = 0; filter < s.filters; filter += lanes()) {
    for (std::int64_t channel = 0; channel < s.channels; ++channel) {
      const float* const from =
          s.sums + (filter / panel * s.channels + channel) * panel + filter % panel;
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
  const TileSlabs inputs(kGroupTiles, s.channels, lanes());
  const TileSlabs gradients(kGroupTiles, s.filters, lanes());
  const TileSlabs sums = sums_of(s.channels, s.filters);
  std::fill_n(s.sums, sums.elements(), 0.0F);
  for (std::int64_t first = s.begin; first < s.end; first += kGroupTiles) {
    const std::int64_t count = std::min(kGroupTiles, s.end - first);
    transform_inputs(s.extents, s.data, {first, count, s.channel, s.channel + s.channels}, inputs,
                     s.inputs);
    (s.bias == nullptr ? transform_gradients<false> : transform_gradients<true>)(s, first, count,
                                                                                 gradients);
    const std::int64_t panel = panel_filters(), panels = (s.filters + panel - 1) / panel;
    for (int slab = 0; slab < kProducts; ++slab) {
      const float* const input = s.inputs + slab * inputs.slab;
      const float* const gradient = s.gradients + slab * gradients.slab;
      // The next slab is fetched, a share with each panel.
      const std::int64_t tiles = slab + 1 < kProducts ? count : 0;
      const Fetched next{{input + inputs.slab, tiles * inputs.row},
                         {gradient + gradients.slab, tiles * gradients.row}};
      for (std::int64_t filter = 0; filter < s.filters; filter += panel) {
        const bool whole = s.filters - filter >= panel;
        (whole ? add_panel<kVectorsMost>
               : add_panel<1>)({input, inputs.row}, {gradient + filter, gradients.row}, count,
                               s.sums + slab * sums.slab + filter * s.channels, s.channels,
                               next.share(filter / panel, panels));
      }
    }
  }
  finish_weights(s, sums.slab);
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(sum_run);
HWY_EXPORT(sums_of);

/// Pieces of work that are wanted at least, and what sums of parts may take.
constexpr std::int64_t kPiecesWanted = 32, kKeptBytes = 1'600'000;
/// Bytes for a thread.
constexpr std::size_t kScratchMost = 4'000'000;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Scratch for the transformed tiles of a group.
std::int64_t group_elements(std::int64_t channels) {
  return TileSlabs(kGroupTiles, channels, winograd_lanes()).elements();
}

std::int64_t blocks_of(const Winograd& w, std::int64_t block) {
  return ceil_div(w.channels, block) * ceil_div(w.filters, block);
}

std::int64_t weight_elements(const Winograd& w) {
  constexpr std::int64_t kTaps = 9;
  return w.filters * w.channels * kTaps;
}

}  // namespace

WinogradGradient::WinogradGradient(const Winograd& extents, int team, std::int64_t block)
    : extents_(extents), team_(team), block_(block) {
  const std::int64_t groups = std::max<std::int64_t>(1, ceil_div(extents.tiles(), kGroupTiles));
  const std::int64_t room =
      kKeptBytes / (weight_elements(extents) * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t wanted = ceil_div(kPiecesWanted, blocks_of(extents, kWinogradBlock));
  parts_ = std::clamp<std::int64_t>(room, 1, std::min(wanted, groups));
  // As many for each thread, or so many that one more does not matter. Neither the block nor the
  // team changes the order of a sum.
  constexpr std::int64_t kManyPieces = 8;
  const std::int64_t pieces = parts_ * blocks_of(extents, block_);
  const bool even = pieces % team == 0 || pieces >= kManyPieces * team;
  if (!even || scratch_bytes() > kScratchMost * static_cast<std::size_t>(team)) {
    block_ = kWinogradBlock;
  }
}

std::int64_t WinogradGradient::thread_elements() const {
  const std::int64_t channels = std::min(block_, extents_.channels);
  const std::int64_t filters = std::min(block_, extents_.filters);
  return group_elements(channels) + group_elements(filters) +
         HWY_DYNAMIC_DISPATCH(sums_of)(channels, filters).elements();
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
  const std::int64_t across = ceil_div(w.channels, block_), blocks = blocks_of(w, block_);
  const auto sum_block = [&](std::int64_t part, std::int64_t block, std::int64_t first,
                             float* own) {
    const std::int64_t end = groups * (part + 1) / parts_;
    const std::int64_t channel = block % across * block_, filter = block / across * block_;
    const std::int64_t channels = std::min(block_, w.channels - channel);
    const std::int64_t filters = std::min(block_, w.filters - filter);
    float* const gradients = own + group_elements(channels);
    HWY_DYNAMIC_DISPATCH(sum_run)
    ({w, data, gradient, channel, channels, filter, filters, first * kGroupTiles,
      std::min(w.tiles(), std::min(first + kRunGroups, end) * kGroupTiles), own, gradients,
      gradients + group_elements(filters), kept + part * (parts_ == 1 ? 0 : elements),
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
