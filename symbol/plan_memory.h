// SPDX-License-Identifier: Apache-2.0
// Memory planning: where in an executor's arena each value and each kernel's scratch lies. A piece
// of memory lives from the first node that writes it to the last that uses it; pieces that do not
// live at the same time may have the same bytes. Outputs take an input's piece where the operator
// allows it and nobody else needs the input (in place, by reference counts). Values that are others
// under another shape, their parts or what they are joined to have one piece (views.h). The plan
// says which earlier pieces' bytes a piece takes over, so that it is right whatever the engine runs
// in parallel. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "symbol/graph.h"
#include "symbol/layouts.h"
#include "symbol/memory_mode.h"
#include "symbol/pack.h"

namespace troupe::symbol {

/// The bytes of a piece that holds so many: every piece begins and ends at a whole line of 64
/// bytes.
inline std::size_t piece_bytes(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

/// A view that a node may give.
struct NodeView {
  std::size_t node = 0;
  ops::View view;
};

/// What a plan is made from. Values are numbered by ValueNumbers.
struct PlanRequest {
  const Graph* graph = nullptr;
  std::vector<std::size_t> value_bytes;
  /// Values with equal numbers have equal shape, dtype and layout; only those go in place.
  std::vector<int> value_kind;
  std::vector<bool> external;              ///< values whose memory is not the plan's
  std::vector<std::size_t> scratch_bytes;  ///< per node
  std::vector<NodeView> views;             ///< in the order of the nodes
  /// Per node: it is left out of some runs, so nothing is ordered through it. Empty: none is.
  std::vector<bool> optional;
  /// Per value: parts of a batch write it one after the other (sub_batch.h), so that its bytes are
  /// in use from node `gathered_from` on. Empty: none is.
  std::vector<bool> gathered;
  std::size_t gathered_from = 0;
  MemoryMode mode = MemoryMode::both;
};

/// For a prepared graph, with its sub-batches, in which the arena has all but the values marked
/// `external`.
PlanRequest plan_request(const PreparedGraph& prepared, std::vector<bool> external);

/// Pieces of values and scratch; -1 where there is none.
struct MemoryPlan {
  std::vector<Piece> pieces;
  /// Per piece: earlier pieces whose bytes it takes over, and whose users are not all known to be
  /// done by what its first writer reads. That writer must wait for their users.
  std::vector<std::vector<std::size_t>> after;
  std::vector<int> value_piece;
  std::vector<std::size_t> value_offset;  ///< where each begins in its piece (views.h)
  std::vector<int> scratch_piece;
  std::size_t arena_bytes = 0;
  LiveSet peak;                    ///< the largest of these pieces: no arena is smaller
  std::size_t unshared_bytes = 0;  ///< what the same values and scratch need without sharing
  int in_place = 0;                ///< outputs that lie where an input of their node does
};

MemoryPlan plan_memory(const PlanRequest& request);

/// A piece that is alive where the plan needs most.
struct Alive {
  std::size_t bytes = 0;
  /// What was written to it last, maybe a part of it; nothing: scratch.
  std::optional<Value> value;
};
/// The largest first.
std::vector<Alive> alive_at_peak(const Graph& graph, const MemoryPlan& plan);

/// The largest live set, without a plan: much faster, and plans are hardly larger.
LiveSet planned_live_set(const PlanRequest& request);

}  // namespace troupe::symbol
