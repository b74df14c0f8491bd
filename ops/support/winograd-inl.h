// SPDX-License-Identifier: Apache-2.0
// Transforms of F(4x4, 3x3) on vectors, and tiles of a blocked tensor.
// With a = 11/16, b = 3/2 the rows of A are (1, 0, 0, 0), (1, p, p^2, p^3) for p = a, -a, b, -b,
// and (0, 0, 0, 1); G and B follow from them (Lavin and Gray 2015; Barabasz et al. 2020 on the
// choice of points). Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <cstdint>

#include <hwy/highway.h>

#include "ops/support/winograd.h"

// Highway reads this file once per instruction set, each time into another namespace. From the last
// one on, once is enough.
#if HWY_ONCE
#pragma once
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<float>;
using Vector = hn::Vec<Lanes>;

inline constexpr float kA = 0.6875F, kB = 1.5F;
inline constexpr float kA2 = kA * kA, kB2 = kB * kB;
/// Columns and rows of an input tile, of an output tile; products of a tile.
inline constexpr int kPatch = 6, kTile = 4, kProducts = kPatch * kPatch;

inline std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(Lanes()));
}
HWY_INLINE Vector number(float value) {
  return hn::Set(Lanes(), value);
}

/// Row 0 of B^T, and of the inputs 1, 3, 5 row 5.
HWY_INLINE Vector input_edge(Vector x0, Vector x2, Vector x4) {
  return hn::MulAdd(number(kA2 * kB2), x0, hn::MulAdd(number(-(kA2 + kB2)), x2, x4));
}
/// The rows of B^T of the points p and -p; `q2`: the square of the other two. `x`: six inputs.
HWY_INLINE void input_pair(float p, float q2, const Vector* x, Vector& plus, Vector& minus) {
  const Vector even = hn::NegMulAdd(number(q2), x[2], x[4]);
  const Vector odd = hn::NegMulAdd(number(q2), x[1], x[3]);
  plus = hn::MulAdd(number(p), odd, even);
  minus = hn::NegMulAdd(number(p), odd, even);
}
/// B^T: six factors of six inputs.
HWY_INLINE void transform_input(const Vector* x, Vector* v) {
  v[0] = input_edge(x[0], x[2], x[4]);
  input_pair(kA, kB2, x, v[1], v[2]);
  input_pair(kB, kA2, x, v[3], v[4]);
  v[5] = input_edge(x[1], x[3], x[5]);
}

/// A^T: four outputs of six products.
HWY_INLINE void transform_output(const Vector* m, Vector* y) {
  const Vector sum_a = hn::Add(m[1], m[2]), difference_a = hn::Sub(m[1], m[2]);
  const Vector sum_b = hn::Add(m[3], m[4]), difference_b = hn::Sub(m[3], m[4]);
  y[0] = hn::Add(m[0], hn::Add(sum_a, sum_b));
  y[1] = hn::MulAdd(number(kB), difference_b, hn::Mul(number(kA), difference_a));
  y[2] = hn::MulAdd(number(kB2), sum_b, hn::Mul(number(kA2), sum_a));
  y[3] =
      hn::MulAdd(number(kB2 * kB), difference_b, hn::MulAdd(number(kA2 * kA), difference_a, m[5]));
}

/// A: six factors of four gradients of outputs.
HWY_INLINE void transform_gradient(const Vector* y, Vector* z) {
  const auto pair = [&](float p, Vector& plus, Vector& minus) HWY_ATTR {
    const Vector even = hn::MulAdd(number(p * p), y[2], y[0]);
    const Vector odd = hn::MulAdd(number(p * p * p), y[3], hn::Mul(number(p), y[1]));
    plus = hn::Add(even, odd);
    minus = hn::Sub(even, odd);
  };
  z[0] = y[0];
  pair(kA, z[1], z[2]);
  pair(kB, z[3], z[4]);
  z[5] = y[3];
}

inline constexpr float kScale0 = 1.0F / (kA2 * kB2);
inline constexpr float kScaleA = 1.0F / (2.0F * kA2 * (kA2 - kB2));
inline constexpr float kScaleB = 1.0F / (2.0F * kB2 * (kB2 - kA2));

/// G: six factors of three taps.
HWY_INLINE void transform_taps(const Vector* g, Vector* u) {
  const auto pair = [&](float scale, float p, Vector& plus, Vector& minus) HWY_ATTR {
    const Vector even = hn::MulAdd(number(scale * p * p), g[2], hn::Mul(number(scale), g[0]));
    const Vector odd = hn::Mul(number(scale * p), g[1]);
    plus = hn::Add(even, odd);
    minus = hn::Sub(even, odd);
  };
  u[0] = hn::Mul(number(kScale0), g[0]);
  pair(kScaleA, kA, u[1], u[2]);
  pair(kScaleB, kB, u[3], u[4]);
  u[5] = g[2];
}

/// G^T: gradients of three taps from those of six factors.
HWY_INLINE void transform_factors(const Vector* u, Vector* g) {
  const Vector sum_a = hn::Mul(number(kScaleA), hn::Add(u[1], u[2]));
  const Vector sum_b = hn::Mul(number(kScaleB), hn::Add(u[3], u[4]));
  g[0] = hn::MulAdd(number(kScale0), u[0], hn::Add(sum_a, sum_b));
  g[1] = hn::MulAdd(number(kScaleA * kA), hn::Sub(u[1], u[2]),
                    hn::Mul(number(kScaleB * kB), hn::Sub(u[3], u[4])));
  g[2] = hn::MulAdd(number(kA2), sum_a, hn::MulAdd(number(kB2), sum_b, u[5]));
}

/// Applies transform(from, to) to columns and then to rows of `rows` x `columns` vectors that
/// load(row, column) gives; store(row, column, vector) gets `out` x `out`.
template <int kFrom, int kTo, typename Transform, typename Load, typename Store>
HWY_INLINE void transform_twice(Transform transform, Load load, Store store) {
  Vector between[kTo][kFrom];  // registers, as all loops are unrolled
  Vector from[kPatch], to[kPatch];
#pragma GCC unroll 8
  for (int column = 0; column < kFrom; ++column) {
#pragma GCC unroll 8
    for (int row = 0; row < kFrom; ++row) from[row] = load(row, column);
    transform(from, to);
#pragma GCC unroll 8
    for (int row = 0; row < kTo; ++row) between[row][column] = to[row];
  }
#pragma GCC unroll 8
  for (int row = 0; row < kTo; ++row) {
    transform(between[row], to);
#pragma GCC unroll 8
    for (int column = 0; column < kTo; ++column) store(row, column, to[column]);
  }
}

/// Where a tile lies.
struct TilePlace {
  std::int64_t image, row, column;  ///< of its first output
};
HWY_INLINE TilePlace place_of(const Winograd& w, std::int64_t tile) {
  const std::int64_t in_image = tile % w.tiles_per_image();
  return {tile / w.tiles_per_image(), in_image / w.tiles_across() * kTile,
          in_image % w.tiles_across() * kTile};
}
/// The next tile.
HWY_INLINE void advance(const Winograd& w, TilePlace& at) {
  if ((at.column += kTile) < w.out_width) return;
  at.column = 0;
  if ((at.row += kTile) < w.out_height) return;
  at.row = 0;
  ++at.image;
}

/// Transforms a patch of 6x6 inputs, of which rows are `row` apart. Two rows of B^T at a time, so
/// that all stays in registers: it is better to load inputs again.
HWY_INLINE void transform_patch(const float* from, std::int64_t row, float* to, std::int64_t slab) {
  const Lanes d;
  const auto load = [=](int y, int x)
                        HWY_ATTR { return hn::LoadU(d, from + y * row + x * lanes()); };
  const auto finish = [=](int y, const Vector* between) HWY_ATTR {
    Vector v[kPatch];
    transform_input(between, v);
#pragma GCC unroll 8
    for (int x = 0; x < kPatch; ++x) hn::Store(v[x], d, to + (y * kPatch + x) * slab);
  };
  Vector one[kPatch], other[kPatch];
#pragma GCC unroll 8
  for (int x = 0; x < kPatch; ++x) one[x] = input_edge(load(0, x), load(2, x), load(4, x));
  finish(0, one);
  const auto pair = [&](int y, float p, float q2) HWY_ATTR {
#pragma GCC unroll 8
    for (int x = 0; x < kPatch; ++x) {
      const Vector column[] = {one[0], load(1, x), load(2, x), load(3, x), load(4, x)};
      input_pair(p, q2, column, one[x], other[x]);
    }
    finish(y, one);
    finish(y + 1, other);
  };
  pair(1, kA, kB2);
  pair(3, kB, kA2);
#pragma GCC unroll 8
  for (int x = 0; x < kPatch; ++x) one[x] = input_edge(load(1, x), load(3, x), load(5, x));
  finish(kPatch - 1, one);
}

/// Some tiles of some channels.
struct TileRange {
  std::int64_t first, count;  ///< tiles
  std::int64_t channel, channel_end;
};

/// Rows of numbers in memory.
template <typename T>
struct Rows {
  T* at;
  std::int64_t stride;
  Rows from(std::int64_t row, std::int64_t column) const {
    return {at + row * stride + column, stride};
  }
};

/// The tiles of a range, all of one vector of channels before those of the next.
struct TileWalk {
  TileWalk(const Winograd& winograd, const TileRange& tiles)
      : w(winograd), range(tiles), channel(tiles.channel), at(place_of(w, tiles.first)) {}
  bool done() const { return channel >= range.channel_end; }
  void next() {
    advance(w, at);
    if (++tile < range.count) return;
    tile = 0;
    channel += lanes();
    at = place_of(w, range.first);
  }

  const Winograd& w;
  const TileRange range;
  std::int64_t tile = 0, channel;
  TilePlace at;
};

/// How many tiles before it is transformed a tile is fetched, and what it is transformed to.
inline constexpr int kTilesAhead = 8, kStoresAhead = 2;
/// The walk so many tiles ahead.
HWY_INLINE TileWalk walk_ahead(const Winograd& w, const TileRange& range) {
  TileWalk walk(w, range);
  for (int i = 0; i < kTilesAhead && !walk.done(); ++i) walk.next();
  return walk;
}
/// Fetches a line to the second-level cache: the first has no room for what is fetched so early.
HWY_INLINE void fetch(const float* line) {
  __builtin_prefetch(line, 0, 2);
}
/// Fetches 4x4 vectors of a blocked tensor's plane.
HWY_INLINE void fetch_tile(const float* corner, std::int64_t width) {
#pragma GCC unroll 4
  for (int y = 0; y < kTile; ++y) {
#pragma GCC unroll 4
    for (int x = 0; x < kTile; ++x) fetch(corner + (y * width + x) * lanes());
  }
}
/// Fetches where the products of a tile lie: whole lines are written, but not at once.
HWY_INLINE void fetch_products(const float* first, std::int64_t slab) {
#pragma GCC unroll 36
  for (int i = 0; i < kProducts; ++i) fetch(first + i * slab);
}

/// Transforms a range of the input, which begins at `to`.
HWY_INLINE void transform_inputs(const Winograd& w, const float* data, const TileRange& range,
                                 const TileSlabs& slabs, float* to) {
  const Lanes d;
  // Copies that no store can change stay in registers.
  const std::int64_t width = w.width, height = w.height, slab = slabs.slab;
  const std::int64_t step = lanes(), plane = height * width * step;
  HWY_ALIGN float edge[kPatch * kPatch * hn::MaxLanes(d)];  // a patch with zeros around the input
  const auto corner_of = [&](const TilePlace& at, std::int64_t channel) HWY_ATTR {
    return data + (at.image * (w.channels / step) + channel / step) * plane +
           ((at.row - w.top) * width + at.column - w.left) * step;
  };
  TileWalk ahead = walk_ahead(w, range);
  for (std::int64_t channel = range.channel; channel < range.channel_end; channel += step) {
    TilePlace at = place_of(w, range.first);
    for (std::int64_t i = 0; i < range.count; ++i, advance(w, at)) {
      const std::int64_t top = at.row - w.top, left = at.column - w.left;
      float* const out = to + i * slabs.row + (channel - range.channel);
      const float* const corner = corner_of(at, channel);
      fetch_products(out + kStoresAhead * slabs.row, slab);
      if (!ahead.done()) {
        // The rows and columns that no tile before has.
        constexpr int kShared = kPatch - kTile;
        fetch_tile(corner_of(ahead.at, ahead.channel) + kShared * (width + 1) * step, width);
        ahead.next();
      }
      if (top >= 0 && top + kPatch <= height && left >= 0 && left + kPatch <= width) {
        transform_patch(corner, width * step, out, slab);
        continue;
      }
      for (int y = 0; y < kPatch; ++y) {
        const bool inside = top + y >= 0 && top + y < height;
        for (int x = 0; x < kPatch; ++x) {
          const bool there = inside && left + x >= 0 && left + x < width;
          const float* const place = corner + (y * width + x) * step;
          hn::Store(there ? hn::LoadU(d, place) : hn::Zero(d), d, edge + (y * kPatch + x) * step);
        }
      }
      transform_patch(edge, kPatch * step, out, slab);
    }
  }
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
