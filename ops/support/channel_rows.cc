// SPDX-License-Identifier: Apache-2.0
// The rows of dense tensors, of those with channels last, and of blocked ones.
#include "ops/support/channel_rows.h"

#include "ops/roofline.h"

namespace troupe::ops {

namespace {

using base::Errc;
using base::Layout;

/// Rows of one part where a tensor's are one run: at most these, and about so many numbers, which
/// stay in the second cache while one group after the other takes its own.
constexpr std::int64_t kPartRows = 1024, kPartNumbers = 1 << 15, kLeastPartRows = 32;
/// Most rows of short parts that go together.
constexpr std::int64_t kTogetherRows = 128;

/// The widest vectors that a block fills; 0: none do.
std::int64_t lanes_for(std::int64_t block) {
  if (block % vector_lanes() == 0) return vector_lanes();
  return block % kNarrowLanes == 0 && vector_lanes() > kNarrowLanes ? kNarrowLanes : 0;
}

/// Channels that are neighbours, in `rows` rows that are one run of memory.
ChannelRows of_run(std::int64_t channels, std::int64_t rows) {
  ChannelRows r;
  r.lanes = vector_lanes();
  r.channels = channels;
  r.groups = (channels + r.lanes - 1) / r.lanes;
  r.by_parts = r.groups > 1;
  const std::int64_t part_rows =
      r.by_parts ? std::clamp(kPartNumbers / channels, kLeastPartRows, kPartRows) : kPartRows;
  r.parts = (rows + part_rows - 1) / part_rows;
  r.rows = std::min(rows, part_rows);
  r.last_rows = rows - (r.parts - 1) * part_rows;
  r.row_step = channels;
  r.part_step = part_rows * channels;
  r.block_step = r.lanes;
  return r;
}

/// `inner` numbers of a channel of one sample are neighbours.
ChannelRows of_planes(std::int64_t samples, std::int64_t channels, std::int64_t inner) {
  ChannelRows r;
  r.channels_aside = false;
  r.lanes = vector_lanes();
  r.channels = r.groups = channels;
  r.parts = samples;
  r.rows = r.last_rows = inner / r.lanes;
  r.rest = inner % r.lanes;
  r.row_step = r.lanes;
  r.part_step = channels * inner;
  r.block_step = inner;
  r.together = std::max<std::int64_t>(1, kTogetherRows / (r.rows + 1));
  return r;
}

}  // namespace

base::Result<ChannelRows> read_channel_rows(const base::Shape& shape, int axis,
                                            const Layout& layout) {
  const std::int64_t samples = shape.elements(0, axis), channels = shape[axis];
  const std::int64_t inner = shape.elements(axis + 1, shape.rank());
  if (layout.is_dense()) {
    return inner == 1 ? of_run(channels, samples) : of_planes(samples, channels, inner);
  }
  const auto declined = [&layout] {
    return base::error(Errc::unimplemented, "layout {}", layout.to_string());
  };
  if (layout.kind != Layout::Kind::blocked || shape.rank() != 4 || axis != 1) return declined();
  if (layout.blocks.empty() && layout.order == Layout::Order{0, 2, 3, 1}) {
    return of_run(channels, samples * inner);
  }
  const bool by_channels = layout.blocks.size() == 1 && layout.blocks[0].axis == axis;
  if (!by_channels || layout.order != Layout::Order{0, 1, 2, 3}) return declined();
  const std::int64_t block = layout.blocks[0].size;
  ChannelRows r;
  r.padded = true;
  r.lanes = lanes_for(block);
  if (r.lanes == 0) return declined();
  r.channels = channels;
  r.groups_in_block = block / r.lanes;
  r.groups = layout.padded[axis] / r.lanes;
  r.parts = samples;
  r.rows = r.last_rows = inner;
  r.row_step = block;
  r.part_step = layout.padded[axis] * inner;
  r.block_step = block * inner;
  return r;
}

}  // namespace troupe::ops
