// SPDX-License-Identifier: Apache-2.0
// How the sums of products on GPUs are cut.
#include "ops/support/device_product.h"

namespace troupe::ops {
namespace {

/// Products that a part should have, and most parts: what one reduction takes.
constexpr std::int64_t kOfPart = 128, kPartsMost = 512;
/// Blocks of all parts together that occupy a GPU: a few for each of its multiprocessors.
constexpr std::int64_t kBlocks = 512;
/// The same counted in outputs of all parts, where tiles are nearly empty.
constexpr std::int64_t kOutputs = 1 << 18;

std::int64_t divided(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Tiles of all outputs.
template <typename Tile>
std::int64_t tiles(const DeviceProduct& p, Tile) {
  return p.batches * divided(p.rows, Tile::kTileRows) * divided(p.columns, Tile::kTileColumns);
}

}  // namespace

DeviceProduct cut_sums(DeviceProduct product) {
  constexpr std::int64_t kDepth = SquareTile::kDepth;
  const std::int64_t all = with_tile(product, [&](auto tile) { return tiles(product, tile); });
  const std::int64_t enough = std::max(kBlocks / std::max<std::int64_t>(all, 1),
                                       kOutputs / std::max<std::int64_t>(product.outputs(), 1));
  const std::int64_t wanted = std::min(divided(product.inner, kOfPart), enough);
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, kPartsMost);
  product.part_length = divided(divided(product.inner, parts), kDepth) * kDepth;
  product.parts = std::max<std::int64_t>(
      product.inner == 0 ? 1 : divided(product.inner, product.part_length), 1);
  return product;
}

}  // namespace troupe::ops
