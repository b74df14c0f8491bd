// SPDX-License-Identifier: Apache-2.0
// ValueNumbers: all values of a graph numbered without gaps, so that what is known per value
// (shapes, dtypes, layouts, blocks) lies in plain vectors. Plain value; any thread may read.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "ops/op.h"

namespace troupe::symbol {

struct Graph;

/// Positions of values: the outputs of node 0 first, hidden ones included, then those of node 1,
/// and so on. A vector "per value" has size() entries in this order.
class ValueNumbers {
 public:
  /// Of a graph without nodes.
  ValueNumbers() = default;
  /// Of the nodes that `graph` has now; later ones are told by add_node().
  explicit ValueNumbers(const Graph& graph);

  /// Numbers the outputs of one more node, behind all others.
  void add_node(int outputs) { first_.push_back(size() + static_cast<std::size_t>(outputs)); }

  /// Position of `value`; CHECKs that its node has this output.
  std::size_t operator[](ops::Value value) const {
    const auto node = static_cast<std::size_t>(value.node);
    const auto output = static_cast<std::size_t>(value.output);
    TROUPE_CHECK(node < first_.size() - 1 && output < first_[node + 1] - first_[node],
                 "a value that the graph does not have");
    return first_[node] + output;
  }
  /// The outputs of node `node` have the positions [begin(node), end(node)).
  std::size_t begin(std::size_t node) const { return first_[node]; }
  std::size_t end(std::size_t node) const { return first_[node + 1]; }
  /// How many values there are.
  std::size_t size() const { return first_.back(); }

 private:
  // Per node the position of its output 0; the last entry is the number of all values.
  std::vector<std::size_t> first_ = {0};
};

}  // namespace troupe::symbol
