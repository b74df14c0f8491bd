// SPDX-License-Identifier: Apache-2.0
// The convolution itself: a group of tiles is transformed, multiplied by the transformed weights in
// 36 matrix products, and transformed back, 64 filters at a time on 16 lanes.
#include "ops/support/winograd.h"

#include <algorithm>
#include <cmath>

#include "ops/support/streaming.h"

// Tiles of registers are arrays of vectors, which scalable ones cannot form.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV)
#include <hwy/cache_control.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/support/winograd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/support/winograd-inl.h"

#ifndef TROUPE_OPS_WINOGRAD_ONCE
#define TROUPE_OPS_WINOGRAD_ONCE
namespace troupe::ops {
/// Filters that are multiplied together: so many vectors.
inline constexpr std::int64_t kPanelVectors = 2;
/// Panels whose products are kept until they are transformed back.
inline constexpr std::int64_t kRangePanels = 2;

/// Slabs whose rows are a vector longer than what they hold: those that are multiplied together do
/// not fall on the same sets of the cache, however many channels there are.
inline TileSlabs padded_slabs(std::int64_t tiles, std::int64_t channels, std::int64_t lanes) {
  return {tiles, channels + lanes, lanes};
}

/// A group of tiles on its way.
struct WinogradWork {
  const Winograd& extents;
  const float* data;
  const float* weights;
  WinogradEpilogue epilogue;
  float* output;
  bool streams;               ///< outputs go past the caches
  std::int64_t first, count;  ///< tiles
  std::int64_t group;         ///< most tiles, for which there is room in
  float *inputs, *products;   ///< transformed tiles
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

std::int64_t count_lanes() {
  return lanes();
}
std::int64_t count_rows() {
  return kRows;
}

/// products[row][vector] = sum over channels of inputs[row][channel] * weights[channel][vector].
template <int kTileRows, int kVectors>
HWY_INLINE void multiply_tile(Rows<const float> inputs, const float* weights, std::int64_t channels,
                              Rows<float> products) {
  constexpr std::int64_t kAhead = 24;  // channels whose weights are fetched early
  const Lanes d;
  Vector sums[kTileRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (std::int64_t c = 0; c < channels; ++c, weights += kVectors * lanes()) {
    Vector factors[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      hwy::Prefetch(weights + (kAhead * kVectors + v) * lanes());
      factors[v] = hn::Load(d, weights + v * lanes());
    }
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      const Vector input = hn::Set(d, inputs.at[r * inputs.stride + c]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(input, factors[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums[r][v], d, products.at + r * products.stride + v * lanes());
    }
  }
}

/// A tile of at most kTileRows rows.
template <int kTileRows, int kVectors>
void multiply_rows(Rows<const float> inputs, const float* weights, std::int64_t channels,
                   Rows<float> products, std::int64_t rows) {
  if constexpr (kTileRows > 1) {
    if (rows < kTileRows) {
      return multiply_rows<kTileRows - 1, kVectors>(inputs, weights, channels, products, rows);
    }
  }
  multiply_tile<kTileRows, kVectors>(inputs, weights, channels, products);
}

/// All rows, in parts of about the same number.
template <int kVectors>
void multiply_panel(Rows<const float> inputs, const float* weights, std::int64_t channels,
                    Rows<float> products, std::int64_t rows) {
  while (rows > 0) {
    const std::int64_t parts = (rows + kRows - 1) / kRows;
    const std::int64_t part = (rows + parts - 1) / parts;
    multiply_rows<kRows, kVectors>(inputs, weights, channels, products, part);
    inputs = inputs.from(part, 0);
    products = products.from(part, 0);
    rows -= part;
  }
}

/// Channels [begin, end) of the group's inputs.
void prepare_inputs(const WinogradWork& work, std::int64_t begin, std::int64_t end) {
  const TileSlabs slabs = padded_slabs(work.group, work.extents.channels, lanes());
  transform_inputs(work.extents, work.data, {work.first, work.count, begin, end}, slabs,
                   work.inputs + begin);
}

/// The group's outputs of filters [begin, end), transformed back from the products.
template <bool kStreams>
void finish_outputs(const WinogradWork& work, const TileSlabs& slabs, std::int64_t begin,
                    std::int64_t end) {
  const Lanes d;
  const Winograd& w = work.extents;
  // Copies that no store can change stay in registers.
  const std::int64_t step = lanes(), width = w.out_width, height = w.out_height;
  const std::int64_t plane = height * width * step, slab = slabs.slab;
  const Vector least = hn::Set(d, work.epilogue.relu ? 0.0F : -HUGE_VALF);
  for (std::int64_t filter = begin; filter < end; filter += step) {
    const float* const biases = work.epilogue.bias;
    const Vector bias = biases == nullptr ? hn::Zero(d) : hn::LoadU(d, biases + filter);
    TilePlace at = place_of(w, work.first);
    for (std::int64_t i = 0; i < work.count; ++i, advance(w, at)) {
      const float* const from = work.products + i * slabs.row + (filter - begin);
      float* const to = work.output + (at.image * (w.filters / step) + filter / step) * plane +
                        (at.row * width + at.column) * step;
      const float* const addend =
          work.epilogue.addend == nullptr ? nullptr : work.epilogue.addend + (to - work.output);
      const auto transform = [](const Vector* m, Vector* y) HWY_ATTR { transform_output(m, y); };
      const auto load = [=](int row, int column)
                            HWY_ATTR { return hn::Load(d, from + (row * kPatch + column) * slab); };
      const auto store = [=](int row, int column, Vector value) HWY_ATTR {
        const std::int64_t offset = (row * width + column) * step;
        value = hn::Add(value, bias);
        if (addend != nullptr) value = hn::Add(value, hn::LoadU(d, addend + offset));
        value = hn::IfThenElse(hn::Le(value, least), least, value);  // NaN stays
        if constexpr (kStreams) {
          hn::Stream(value, d, to + offset);
        } else {
          hn::StoreU(value, d, to + offset);
        }
      };
      const std::int64_t rows = height - at.row, columns = width - at.column;
      if (rows >= kTile && columns >= kTile) {
        transform_twice<kPatch, kTile>(transform, load, store);
      } else {
        transform_twice<kPatch, kTile>(transform, load,
                                       [=](int row, int column, Vector value) HWY_ATTR {
                                         if (row < rows && column < columns) {
                                           store(row, column, value);
                                         }
                                       });
      }
    }
  }
}

/// Filters [begin, end), which is a range of panels, from inputs that are prepared.
void compute_outputs(const WinogradWork& work, std::int64_t begin, std::int64_t end) {
  const Winograd& w = work.extents;
  const std::int64_t panel = kPanelVectors * lanes(), range = kRangePanels * panel;
  const TileSlabs inputs = padded_slabs(work.group, w.channels, lanes());
  const TileSlabs products = padded_slabs(work.group, range, lanes());
  for (std::int64_t first = begin; first < end; first += range) {
    const std::int64_t last = std::min(end, first + range);
    for (int slab = 0; slab < kProducts; ++slab) {
      const float* const weights = work.weights + slab * w.channels * w.filters;
      for (std::int64_t filter = first; filter < last; filter += panel) {
        const bool whole = w.filters - filter >= panel;
        (whole ? multiply_panel<kPanelVectors>
               : multiply_panel<1>)({work.inputs + slab * inputs.slab, inputs.row},
                                    weights + filter * w.channels, w.channels,
                                    {work.products + slab * products.slab + (filter - first),
                                     products.row},
                                    work.count);
      }
    }
    (work.streams ? finish_outputs<true> : finish_outputs<false>)(work, products, first, last);
  }
  if (work.streams) hwy::FlushStream();
}

/// The panel of filters that begins with `start`, of all channels.
void transform_filters(const WinogradTaps& taps, std::int64_t start, float* to) {
  constexpr int kSide = 3, kTaps = kSide * kSide;
  const Lanes d;
  const std::int64_t step = lanes(), slab = taps.channels * taps.filters;
  const std::int64_t width = std::min(kPanelVectors * step, taps.filters - start);
  float* out = to + start * taps.channels;
  HWY_ALIGN float values[kTaps * hn::MaxLanes(d)];
  // Where filters are neighbours in memory, the next channel is far away.
  const std::int64_t together = taps.filter_stride == kTaps ? width * kTaps : 0;
  constexpr std::int64_t kChannelsAhead = 4, kLine = 16;
  for (std::int64_t channel = 0; channel < taps.channels; ++channel) {
    const float* const ahead =
        taps.weight + (channel + kChannelsAhead) * taps.channel_stride + start * taps.filter_stride;
    for (std::int64_t i = 0; i < together; i += kLine) hwy::Prefetch(ahead + i);
    for (std::int64_t filter = start; filter < start + width; filter += step, out += step) {
      for (std::int64_t lane = 0; lane < step; ++lane) {
        const float* const from =
            taps.weight + channel * taps.channel_stride + (filter + lane) * taps.filter_stride;
        for (int t = 0; t < kTaps; ++t) {
          values[t * step + lane] = from[taps.rotated ? kTaps - 1 - t : t];
        }
      }
      transform_twice<kSide, kPatch>(
          [](const Vector* g, Vector* u) HWY_ATTR { transform_taps(g, u); },
          [&](int row, int column)
              HWY_ATTR { return hn::Load(d, values + (row * kSide + column) * step); },
          [=](int row, int column, Vector value)
              HWY_ATTR { hn::StoreU(value, d, out + (row * kPatch + column) * slab); });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace troupe::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::ops {
namespace {

HWY_EXPORT(count_lanes);
HWY_EXPORT(count_rows);
HWY_EXPORT(prepare_inputs);
HWY_EXPORT(compute_outputs);
HWY_EXPORT(transform_filters);

constexpr std::int64_t kProductsOfTile = 36;
/// Most tiles of a group, and of one when there are few; what transformed inputs may take.
constexpr std::int64_t kGroupMost = 56;
constexpr std::int64_t kInputBytes = 3'300'000;

std::int64_t slabs(std::int64_t tiles, std::int64_t channels) {
  return padded_slabs(tiles, channels, winograd_lanes()).elements();
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t range_filters() {
  return kRangePanels * kPanelVectors * winograd_lanes();
}

}  // namespace

std::int64_t winograd_lanes() {
  const std::int64_t lanes = HWY_DYNAMIC_DISPATCH(count_lanes)();
  constexpr std::int64_t kLeast = 8;
  return lanes >= kLeast ? lanes : 0;
}

base::Layout winograd_layout(std::int64_t channels, std::int64_t filters, bool rotated) {
  base::Layout layout;
  layout.kind = base::Layout::Kind::opaque;
  layout.tag = rotated ? "winograd, rotated" : "winograd";
  layout.bytes = kProductsOfTile * channels * filters * static_cast<std::int64_t>(sizeof(float));
  return layout;
}

void transform_weights(const KernelContext& context, const WinogradTaps& taps, float* to) {
  const std::int64_t panel = kPanelVectors * winograd_lanes();
  context.parallel(ceil_div(taps.filters, panel), [&](std::int64_t index) {
    HWY_DYNAMIC_DISPATCH(transform_filters)(taps, index * panel, to);
  });
}

WinogradConvolution::WinogradConvolution(const Winograd& extents, int team)
    : extents_(extents), team_(team) {
  constexpr std::int64_t kGroupLeast = 28;  // below it weights are read too often
  const std::int64_t room = kInputBytes / static_cast<std::int64_t>(sizeof(float));
  std::int64_t most = std::clamp<std::int64_t>(room / slabs(1, extents.channels), 1, kGroupMost);
  // Whole tiles of registers: smaller ones load more for each product.
  const std::int64_t rows = HWY_DYNAMIC_DISPATCH(count_rows)();
  if (most > rows) most -= most % rows;
  const std::int64_t tiles = std::max<std::int64_t>(1, extents.tiles());
  const std::int64_t groups = ceil_div(tiles, most);
  // Threads have groups of their own, unless there are too few tiles.
  group_ = ceil_div(tiles, ceil_div(groups, team) * team);
  shared_ = team > 1 && group_ < std::min(kGroupLeast, most);
  if (shared_) group_ = ceil_div(tiles, groups);
}

std::size_t WinogradConvolution::scratch_bytes() const {
  const std::int64_t products = slabs(group_, range_filters());
  const std::int64_t inputs = slabs(group_, extents_.channels);
  return static_cast<std::size_t>(team_ * products + (shared_ ? 1 : team_) * inputs) *
         sizeof(float);
}

void WinogradConvolution::run(const KernelContext& context, const float* data, const float* weights,
                              const WinogradEpilogue& epilogue, float* output) const {
  const Winograd& w = extents_;
  const std::int64_t bytes =
      w.images * w.filters * w.out_height * w.out_width * static_cast<std::int64_t>(sizeof(float));
  const bool streams = worth_streaming(output, bytes) && output != epilogue.addend;
  auto* const scratch = reinterpret_cast<float*>(context.scratch.data());
  const std::int64_t products = slabs(group_, range_filters());
  const std::int64_t inputs = slabs(group_, w.channels);
  const auto work_on = [&](std::int64_t first, std::int64_t thread) {
    float* const own = scratch + (shared_ ? 0 : thread * inputs);
    float* const behind = scratch + (shared_ ? 1 : team_) * inputs + thread * products;
    return WinogradWork{w,      data,    weights, epilogue,
                        output, streams, first,   std::min(group_, w.tiles() - first),
                        group_, own,     behind};
  };
  if (!shared_) {
    context.parallel(team_, [&](std::int64_t thread) {
      for (std::int64_t first = thread * group_; first < w.tiles(); first += team_ * group_) {
        const WinogradWork work = work_on(first, thread);
        HWY_DYNAMIC_DISPATCH(prepare_inputs)(work, 0, w.channels);
        HWY_DYNAMIC_DISPATCH(compute_outputs)(work, 0, w.filters);
      }
    });
    return;
  }
  for (std::int64_t first = 0; first < w.tiles(); first += group_) {
    share(context, [&](std::int64_t thread) { return work_on(first, thread); });
  }
}

/// All threads work on one group: first they share out channels, then panels of filters, and tiles
/// where there are fewer of those than threads.
void WinogradConvolution::share(
    const KernelContext& context,
    const std::function<WinogradWork(std::int64_t thread)>& work_of) const {
  const Winograd& w = extents_;
  const std::int64_t lanes = winograd_lanes(), panel = kPanelVectors * lanes;
  const std::int64_t row = padded_slabs(group_, w.channels, lanes).row;
  /// Part `part` of `parts` of the tiles of a work.
  const auto cut = [row](WinogradWork work, std::int64_t part, std::int64_t parts) {
    const std::int64_t begin = work.count * part / parts;
    work.count = work.count * (part + 1) / parts - begin;
    work.first += begin;
    work.inputs += begin * row;
    return work;
  };
  const std::int64_t blocks = w.channels / lanes, block_parts = ceil_div(team_, blocks);
  context.parallel(blocks * block_parts, [&](std::int64_t chunk) {
    const WinogradWork work = cut(work_of(0), chunk % block_parts, block_parts);
    const std::int64_t begin = chunk / block_parts * lanes;
    HWY_DYNAMIC_DISPATCH(prepare_inputs)(work, begin, begin + lanes);
  });
  const std::int64_t panels = ceil_div(w.filters, panel), parts = ceil_div(team_, panels);
  const std::int64_t pieces = panels * parts;
  context.parallel(team_, [&](std::int64_t thread) {
    // Neighbouring panels of one part are done together.
    const std::int64_t end = pieces * (thread + 1) / team_;
    for (std::int64_t piece = pieces * thread / team_; piece < end;) {
      const std::int64_t part = piece / panels, begin = piece % panels;
      const std::int64_t last = std::min(panels, begin + end - piece);
      const WinogradWork work = cut(work_of(thread), part, parts);
      HWY_DYNAMIC_DISPATCH(compute_outputs)
      (work, begin * panel, std::min(w.filters, last * panel));
      piece += last - begin;
    }
  });
}

}  // namespace troupe::ops
#endif  // HWY_ONCE
