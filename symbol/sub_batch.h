// SPDX-License-Identifier: Apache-2.0
// Sub-batches: a prediction takes its batch through the first nodes of the graph in parts of a few
// samples, so that their values need memory for a part alone and stay in the caches; the nodes
// behind them, which read large weights, take the whole batch at once. Samples that do not mix give
// the same bits in parts. Pure functions, any thread that may lead the team.
// Private to this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/layout.h"
#include "base/shape.h"
#include "base/status.h"

namespace troupe::symbol {

struct PreparedGraph;

/// Which nodes of a prepared graph run in parts: neighbours, in front of all others but the
/// prologue.
struct SubBatch {
  std::int64_t batch = 0;    ///< samples of the whole
  std::int64_t samples = 0;  ///< of each part; 0: all nodes take the whole
  std::vector<bool> nodes;   ///< per node: runs once for each part
  /// Per value: has all samples, though nodes that run in parts read or write it. These take the
  /// part's own; all other values of these nodes have one part.
  std::vector<bool> sliced;

  bool active() const { return samples > 0; }
  /// The last one begins earlier where the batch is no multiple of a part: the samples that it
  /// shares with the one before are computed twice, to the same bits.
  std::int64_t parts() const { return active() ? (batch + samples - 1) / samples : 1; }
  /// The first sample of part `part`.
  std::int64_t first(std::int64_t part) const { return std::min(part * samples, batch - samples); }
};

/// True when a value's samples lie one after the other: axis 0 is the outermost and in no block.
bool samples_in_line(const base::Layout& layout);
/// `shape` with `samples` along axis 0.
base::Shape of_samples(base::Shape shape, std::int64_t samples);
/// The layout of so many samples, which lie in line.
base::Layout of_samples(base::Layout layout, std::int64_t samples);

/// ExecutorOptions::sub_batch: the size of parts is chosen.
inline constexpr std::int64_t kChosenSubBatch = 0;

/// `prepared`, a prediction's graph, with its sub-batches. `weights`: variables that have no
/// samples. `wanted`: samples of a part at most, or kChosenSubBatch. The nodes that run in parts
/// are those that make planned memory smallest while the kernels' rules find their parts hardly
/// slower than the whole; where there are none, or on a GPU unless `wanted` says how many, nothing
/// changes. Takes the kernels that `prepared`
/// has, for fewer samples.
base::Result<PreparedGraph> take_sub_batches(PreparedGraph prepared,
                                             const std::set<std::string>& weights,
                                             std::int64_t wanted);

}  // namespace troupe::symbol
