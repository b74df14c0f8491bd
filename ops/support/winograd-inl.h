// SPDX-License-Identifier: Apache-2.0
// Transforms of F(4x4, 3x3) on vectors, and tiles of a blocked tensor.
// With a = 11/16, b = 3/2 the rows of A are (1, 0, 0, 0), (1, p, p^2, p^3) for p = a, -a, b, -b,
// and (0, 0, 0, 1); G and B follow from them (Lavin and Gray 2015; Barabasz et al. 2020 on the
// choice of points). Include it after <hwy/foreach_target.h>. Pure functions; any thread.
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

/// B^T: six inputs, in place.
HWY_INLINE void transform_input(Vector* x) {
  const Vector sum = number(-(kA2 + kB2)), product = number(kA2 * kB2);
  const Vector first = hn::MulAdd(product, x[0], hn::MulAdd(sum, x[2], x[4]));
  const Vector last = hn::MulAdd(product, x[1], hn::MulAdd(sum, x[3], x[5]));
  const Vector even_a = hn::NegMulAdd(number(kB2), x[2], x[4]);
  const Vector odd_a = hn::NegMulAdd(number(kB2), x[1], x[3]);
  const Vector even_b = hn::NegMulAdd(number(kA2), x[2], x[4]);
  const Vector odd_b = hn::NegMulAdd(number(kA2), x[1], x[3]);
  x[0] = first;
  x[1] = hn::MulAdd(number(kA), odd_a, even_a);
  x[2] = hn::NegMulAdd(number(kA), odd_a, even_a);
  x[3] = hn::MulAdd(number(kB), odd_b, even_b);
  x[4] = hn::NegMulAdd(number(kB), odd_b, even_b);
  x[5] = last;
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
  const Lanes d;
  HWY_ALIGN float between[kTo * kFrom * hn::MaxLanes(d)];
  Vector from[kPatch], to[kPatch];
#pragma GCC unroll 8
  for (int column = 0; column < kFrom; ++column) {
    for (int row = 0; row < kFrom; ++row) from[row] = load(row, column);
    transform(from, to);
    for (int row = 0; row < kTo; ++row) {
      hn::Store(to[row], d, between + (row * kFrom + column) * lanes());
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kTo; ++row) {
    for (int column = 0; column < kFrom; ++column) {
      from[column] = hn::Load(d, between + (row * kFrom + column) * lanes());
    }
    transform(from, to);
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

/// transform_twice on 6x6 inputs that load gives.
template <typename Load>
HWY_INLINE void transform_patch(Load load, float* to, std::int64_t slab) {
  transform_twice<kPatch, kPatch>(
      [](Vector* x, Vector* y) HWY_ATTR {
        transform_input(x);
        for (int k = 0; k < kPatch; ++k) y[k] = x[k];
      },
      load,
      [to, slab](int row, int column, Vector value)
          HWY_ATTR { hn::Store(value, Lanes(), to + (row * kPatch + column) * slab); });
}

/// Transforms tiles [first, first + count), channels [begin, end) of the input; begin lies at `to`.
HWY_INLINE void transform_inputs(const Winograd& w, const float* data, std::int64_t first,
                                 std::int64_t count, std::int64_t begin, std::int64_t end,
                                 const TileSlabs& slabs, float* to) {
  const Lanes d;
  // Copies that no store can change stay in registers.
  const std::int64_t width = w.width, height = w.height, slab = slabs.slab;
  const std::int64_t step = lanes(), plane = height * width * step;
  for (std::int64_t channel = begin; channel < end; channel += step) {
    TilePlace at = place_of(w, first);
    for (std::int64_t i = 0; i < count; ++i, advance(w, at)) {
      const float* from = data + (at.image * (w.channels / step) + channel / step) * plane;
      const std::int64_t top = at.row - w.top, left = at.column - w.left;
      float* const out = to + i * slabs.row + (channel - begin);
      if (top >= 0 && top + kPatch <= height && left >= 0 && left + kPatch <= width) {
        const float* const corner = from + (top * width + left) * step;
        transform_patch(
            [=](int row, int column)
                HWY_ATTR { return hn::LoadU(d, corner + (row * width + column) * step); },
            out, slab);
        continue;
      }
      const float* rows[kPatch];
      bool columns[kPatch];
      for (int k = 0; k < kPatch; ++k) {
        const std::int64_t y = top + k, x = left + k;
        rows[k] = y < 0 || y >= height ? nullptr : from + (y * width + left) * step;
        columns[k] = x >= 0 && x < width;
      }
      transform_patch(
          [&rows, &columns, step, d](int row, int column) HWY_ATTR {
            if (rows[row] == nullptr || !columns[column]) return hn::Zero(d);
            return hn::LoadU(d, rows[row] + column * step);
          },
          out, slab);
    }
  }
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
