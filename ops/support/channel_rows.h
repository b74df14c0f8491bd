// SPDX-License-Identifier: Apache-2.0
// How vectors go over a tensor channel by channel, in the layout that it has, for kernels that
// treat each channel in its own way. Plain values; any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel.h"

namespace troupe::ops {

/// Lanes for blocks that the machine's vectors are too long for.
inline constexpr std::int64_t kNarrowLanes = 8;

/// Where the numbers of a tensor lie. A group is a vector of neighbouring channels, and its rows
/// are those channels at one place; or, where the numbers of a channel are neighbours, a group is
/// one channel and a row is a vector of its numbers. Rows are dealt out in parts.
struct ChannelRows {
  bool channels_aside = true;  ///< the lanes of a row are channels, not numbers of one
  bool padded = false;         ///< rows are whole where channels are not: zeros follow them
  std::int64_t lanes = 1;
  std::int64_t channels = 0;
  std::int64_t groups = 0, parts = 0;
  std::int64_t rows = 0, last_rows = 0;  ///< whole ones of a part, and of the last one
  std::int64_t rest = 0;                 ///< numbers of one more row of each part
  std::int64_t row_step = 0, part_step = 0;
  std::int64_t groups_in_block = 1, block_step = 0;
  std::int64_t together = 1;  ///< short parts, beginning at a multiple of this, that go together
  bool by_parts = false;      ///< rows of several groups share cache lines

  std::int64_t offset(std::int64_t group, std::int64_t part) const {
    return group / groups_in_block * block_step + group % groups_in_block * lanes +
           part * part_step;
  }
  std::int64_t rows_of(std::int64_t part) const { return part + 1 < parts ? rows : last_rows; }
  /// The first channel of a group, and how many it has.
  std::int64_t channel(std::int64_t group) const { return channels_aside ? group * lanes : group; }
  std::int64_t channels_of(std::int64_t group) const {
    return channels_aside ? std::clamp<std::int64_t>(channels - group * lanes, 0, lanes) : 1;
  }
  /// Channels of a row, those that are missing included.
  std::int64_t row_channels() const { return channels_aside ? lanes : 1; }
};

/// Runs first(group, begin, end) over parts [begin, end), whole lots that go together; then, of a
/// group whose parts are through, middle(group), and then last(group, begin, end). A group stays
/// with one thread where there are enough of them for all, unless the groups of a part follow each
/// other; last() should begin with the last part, which was read last.
template <typename First, typename Middle, typename Last>
void run_groups(const KernelContext& context, const ChannelRows& p, First&& first, Middle&& middle,
                Last&& last) {
  constexpr std::int64_t kGroupsOfThread = 4;
  if (p.by_parts && p.parts >= context.team) {
    const auto each = [&](auto&& f) {
      context.parallel(p.parts, [&](std::int64_t part) {
        for (std::int64_t group = 0; group < p.groups; ++group) f(group, part, part + 1);
      });
    };
    each(first);
    context.parallel(p.groups, middle);
    each(last);
    return;
  }
  if (p.groups % context.team == 0 || p.groups >= kGroupsOfThread * context.team) {
    context.parallel(p.groups, [&](std::int64_t group) {
      first(group, std::int64_t{0}, p.parts);
      middle(group);
      last(group, std::int64_t{0}, p.parts);
    });
    return;
  }
  const auto each = [&](auto&& f) {
    const std::int64_t batches = (p.parts + p.together - 1) / p.together;
    context.parallel(p.groups * batches, [&](std::int64_t at) {
      const std::int64_t part = at % batches * p.together;
      f(at / batches, part, std::min(part + p.together, p.parts));
    });
  };
  each(first);
  context.parallel(p.groups, middle);
  each(last);
}

/// The rows of a tensor of f32, or of what is computed in f32, whose channels lie along `axis`.
/// unimplemented for other layouts than dense, channels last, and blocks of channels that vectors
/// fill.
base::Result<ChannelRows> read_channel_rows(const base::Shape& shape, int axis,
                                            const base::Layout& layout);

}  // namespace troupe::ops
