// SPDX-License-Identifier: Apache-2.0
// Convolution with windows of 3x3 and stride 1 by Winograd's minimal filtering F(4x4, 3x3) (Lavin
// and Gray 2015): a tile of 4x4 outputs takes 36 products a pair of channels, not 144. The points
// are 0, +-11/16, +-3/2 and infinity, which lose less precision in f32 than +-1 and +-2.
// Tensors are blocked: (images, channels / lanes, height, width, lanes). Groups of tiles go through
// all stages while they are in the cache, so scratch is at most 4 MB a thread.
// Pure functions; any thread that leads the context's team.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ops/kernel.h"

namespace troupe::ops {

/// Channels that lie side by side: the lanes of a vector. 0: the machine's vectors are too short.
std::int64_t winograd_lanes();

/// Extents. Channels and filters are multiples of winograd_lanes().
struct Winograd {
  std::int64_t images = 0;
  std::int64_t channels = 0, filters = 0;  ///< of input and output
  std::int64_t height = 0, width = 0;      ///< of the input
  std::int64_t out_height = 0, out_width = 0;
  std::int64_t top = 0, left = 0;  ///< zeros before the input

  std::int64_t tiles_across() const { return (out_width + 3) / 4; }
  std::int64_t tiles_per_image() const { return (out_height + 3) / 4 * tiles_across(); }
  std::int64_t tiles() const { return images * tiles_per_image(); }
};

/// 36 slabs of rows: of transformed tiles (tile, channel), or of sums. Slabs are an odd number of
/// vectors, so that neighbours do not fall on the same sets of the cache.
struct TileSlabs {
  std::int64_t row, slab;
  TileSlabs(std::int64_t rows, std::int64_t width, std::int64_t lanes)
      : row(width), slab((rows * width / lanes | 1) * lanes) {}
  std::int64_t elements() const { return 36 * slab; }
};

/// Where the 3x3 weights of a convolution lie: of input channel c, filter f and tap t at
/// weight[c * channel_stride + f * filter_stride + t], or, rotated, at + 8 - t.
struct WinogradTaps {
  const float* weight = nullptr;
  std::int64_t channels = 0, filters = 0;
  std::int64_t channel_stride = 0, filter_stride = 0;
  bool rotated = false;
};

/// The layout of transformed weights of a convolution with so many input channels and filters.
base::Layout winograd_layout(std::int64_t channels, std::int64_t filters, bool rotated);
/// Transforms weights to the form that WinogradConvolution reads; `to` is aligned to 64 bytes.
void transform_weights(const KernelContext& context, const WinogradTaps& taps, float* to);

/// What happens to an output before it is written: + bias + addend, then relu.
struct WinogradEpilogue {
  const float* bias = nullptr;    ///< a number a filter; null: none
  const float* addend = nullptr;  ///< as the output lies, and may be it; null: none
  bool relu = false;              ///< NaN stays NaN
};

struct WinogradWork;

/// Forward pass; with the taps of filters and channels exchanged, and rotated, the data gradient.
/// Results do not depend on the team.
class WinogradConvolution {
 public:
  WinogradConvolution(const Winograd& extents, int team);

  std::size_t scratch_bytes() const;
  /// Writes all of `output`.
  void run(const KernelContext& context, const float* data, const float* weights,
           const WinogradEpilogue& epilogue, float* output) const;

 private:
  void share(const KernelContext& context,
             const std::function<WinogradWork(std::int64_t thread)>& work_of) const;

  Winograd extents_;
  int team_;
  std::int64_t group_;   // tiles that are worked on together
  bool shared_ = false;  // all threads work on one group
};

/// Channels, and filters, of a block of the weight gradient, for each of which its tiles are
/// transformed anew; twice as many where that leaves enough blocks for the team.
inline constexpr std::int64_t kWinogradBlock = 64;

/// The gradients of weights and bias. Results depend on the extents alone.
class WinogradGradient {
 public:
  /// `block`: the largest that may be taken.
  WinogradGradient(const Winograd& extents, int team, std::int64_t block = 2 * kWinogradBlock);

  std::size_t scratch_bytes() const;
  /// `data` is the forward pass's input, `gradient` that of its output. Writes the dense
  /// (filters, channels, 3, 3) gradient and, unless null, the bias's.
  void run(const KernelContext& context, const float* data, const float* gradient, float* weight,
           float* bias) const;

 private:
  std::int64_t thread_elements() const;

  Winograd extents_;
  int team_;
  std::int64_t parts_ = 1;  // of the tiles; their sums are added in order
  std::int64_t block_;      // channels, and filters, that are done together
};

}  // namespace troupe::ops
