// SPDX-License-Identifier: Apache-2.0
// The planner: simulates the execution in order, counts users, and hands out blocks.
#include "symbol/plan_memory.h"

#include <algorithm>
#include <map>

#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

/// A free block is taken for something smaller only down to this fraction of its size.
constexpr std::size_t kMatchRange = 16;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

/// Blocks by number, with those that nobody uses at hand.
class Blocks {
 public:
  explicit Blocks(bool share) : share_(share) {}

  /// The smallest free block that fits, else the largest smaller one (grown), else a new one.
  int take(std::size_t bytes) {
    auto it = free_.lower_bound(bytes);
    if (it != free_.end() && it->first > bytes * kMatchRange) it = free_.end();
    if (it == free_.end() && !free_.empty()) {
      const auto smaller = free_.lower_bound(bytes);
      if (smaller != free_.begin() && std::prev(smaller)->first >= bytes / kMatchRange) {
        it = std::prev(smaller);
      }
    }
    if (!share_ || it == free_.end()) {
      blocks_.push_back({0, bytes});
      return static_cast<int>(blocks_.size()) - 1;
    }
    const int block = it->second;
    free_.erase(it);
    Block& taken = blocks_[static_cast<std::size_t>(block)];
    taken.bytes = std::max(taken.bytes, bytes);
    return block;
  }

  void give_back(int block) {
    if (share_) free_.emplace(blocks_[static_cast<std::size_t>(block)].bytes, block);
  }

  /// Lays the blocks out one behind the other.
  std::vector<Block> place(std::size_t& total) {
    total = 0;
    for (Block& block : blocks_) {
      block.offset = total;
      total += block.bytes;
    }
    return std::move(blocks_);
  }

 private:
  const bool share_;
  std::vector<Block> blocks_;
  std::multimap<std::size_t, int> free_;
};

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request),
        graph_(*request.graph),
        numbers_(graph_),
        uses_(numbers_.size(), 0),
        blocks_(request.share) {
    plan_.value_block.assign(numbers_.size(), -1);
    plan_.scratch_block.assign(graph_.nodes.size(), -1);
  }

  MemoryPlan run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const GraphNode& node = graph_.nodes[i];
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.reads(k)) ++uses_[numbers_[node.inputs[k]]];
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!graph_.nodes[i].is_variable()) visit(i);
    }
    plan_.blocks = blocks_.place(plan_.arena_bytes);
    return std::move(plan_);
  }

 private:
  bool planned(std::size_t value) const { return !request_.external[value]; }

  /// The block of an input that `node` is the last to read and may overwrite with `output`.
  int in_place_block(const GraphNode& node, int output, std::size_t value) const {
    if (!request_.share) return -1;
    for (const auto& [from, to] : node.op->in_place) {
      const auto index = static_cast<std::size_t>(from);
      if (to != output || index >= node.inputs.size()) continue;
      const std::size_t input = numbers_[node.inputs[index]];
      const int block = plan_.value_block[input];
      const bool last = uses_[input] == 1 && node.reads(index);
      const bool taken = std::find(taken_.begin(), taken_.end(), block) != taken_.end();
      const bool fits = request_.value_kind[input] == request_.value_kind[value];
      if (block >= 0 && last && fits && !taken) return block;
    }
    return -1;
  }

  void visit(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    taken_.clear();
    for (int output = 0; output < node.outputs; ++output) {
      const std::size_t value = numbers_[{static_cast<std::int64_t>(index), output}];
      if (!planned(value)) continue;
      const std::size_t bytes = aligned(std::max<std::size_t>(request_.value_bytes[value], 1));
      plan_.unshared_bytes += bytes;
      int block = in_place_block(node, output, value);
      if (block >= 0) {
        ++plan_.in_place;
        taken_.push_back(block);
      } else {
        block = blocks_.take(bytes);
      }
      plan_.value_block[value] = block;
    }
    if (request_.scratch_bytes[index] > 0) {
      const std::size_t bytes = aligned(request_.scratch_bytes[index]);
      plan_.unshared_bytes += bytes;
      plan_.scratch_block[index] = blocks_.take(bytes);
      blocks_.give_back(plan_.scratch_block[index]);
    }
    release(index, node);
  }

  /// Gives back what nobody reads any more: inputs read for the last time, outputs never read.
  void release(std::size_t index, const GraphNode& node) {
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const std::size_t input = numbers_[node.inputs[k]];
      if (!node.reads(k) || --uses_[input] > 0 || plan_.value_block[input] < 0) continue;
      const int block = plan_.value_block[input];
      const bool taken = std::find(taken_.begin(), taken_.end(), block) != taken_.end();
      if (!taken) blocks_.give_back(block);
    }
    for (std::size_t value = numbers_.begin(index); value < numbers_.end(index); ++value) {
      if (uses_[value] == 0 && plan_.value_block[value] >= 0) {
        blocks_.give_back(plan_.value_block[value]);
      }
    }
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const ValueNumbers numbers_;
  std::vector<int> uses_;   // per value: reads that are still to come
  std::vector<int> taken_;  // blocks of inputs that this node's outputs took over
  Blocks blocks_;
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const PlanRequest& request) {
  return Planner(request).run();
}

}  // namespace troupe::symbol
