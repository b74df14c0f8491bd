// SPDX-License-Identifier: Apache-2.0
// Memory planning: which values share which block of an executor's arena. Reference counts along
// the order of execution; outputs take an input's block where the operator allows it (in place) or
// a block that is free by then. Two users of a block are ordered by the block's engine variable,
// so a plan is right whatever the engine runs in parallel. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symbol/graph.h"

namespace troupe::symbol {

/// Alignment of every block.
inline constexpr std::size_t kBlockAlignment = 64;

/// What a plan is made from. Values are numbered by ValueNumbers.
struct PlanRequest {
  const Graph* graph = nullptr;
  std::vector<std::size_t> value_bytes;
  /// Values with equal numbers have equal shape, dtype and layout; only those go in place.
  std::vector<int> value_kind;
  std::vector<bool> external;              ///< values whose memory is not the plan's
  std::vector<std::size_t> scratch_bytes;  ///< per node
  bool share = true;  ///< false: every value and scratch gets a block of its own
};

/// A piece of the arena.
struct Block {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Blocks of values and scratch; -1 where there is none.
struct MemoryPlan {
  std::vector<Block> blocks;
  std::vector<int> value_block;
  std::vector<int> scratch_block;
  std::size_t arena_bytes = 0;
  std::size_t unshared_bytes = 0;  ///< what the same values and scratch need without sharing
  int in_place = 0;                ///< outputs that took an input's block
};

MemoryPlan plan_memory(const PlanRequest& request);

}  // namespace troupe::symbol
