// SPDX-License-Identifier: Apache-2.0
// Graph: a symbol laid out flat, nodes in topological order, as passes and executors read it.
// Plain value; passes take graphs and give new ones. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/op.h"
#include "ops/table.h"

namespace troupe::symbol {

/// Output `output` of node `node` (an index into Graph::nodes).
using ops::Value;

/// The value's node as an index.
inline std::size_t node_index(Value value) {
  return static_cast<std::size_t>(value.node);
}

/// A variable (no operator) or one call of an operator.
struct GraphNode {
  std::string name;
  const ops::OpDef* op = nullptr;  ///< null: a variable
  ops::Params params;
  ops::Attributes extra;  ///< attributes like __shape__ that no operator reads
  std::vector<Value> inputs;
  int outputs = 1;        ///< hidden ones included
  bool backward = false;  ///< made by differentiation: runs in the backward pass

  bool is_variable() const { return op == nullptr; }
  /// True for max(x, 0).
  bool is_relu() const;
  /// The value that input `index` takes.
  Value input(int index) const { return inputs[static_cast<std::size_t>(index)]; }
  /// True when the node reads the values of input `index`; false when only its shape and dtype
  /// matter, so that the values need not be kept or computed for it. CHECKs the range.
  bool reads(std::size_t index) const;
  /// Name of the node's random stream: its own, or what "__random_name__" says (a recomputed node
  /// keeps its original's).
  const std::string& random_name() const;
};

/// Nodes such that inputs come before users, and the values that the graph is for.
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<Value> heads;

  const GraphNode& node(Value value) const { return nodes[node_index(value)]; }
  /// "fc1_output", "bn1_batch_mean", or a variable's own name.
  std::string value_name(Value value) const;
  /// True per node for variables that some operator takes as auxiliary state.
  std::vector<bool> auxiliary_marks() const;
  /// Indices of variables that are arguments (or auxiliary states), in topological order.
  std::vector<std::int64_t> arguments() const;
  std::vector<std::int64_t> auxiliary_states() const;
};

/// Adds nodes to a graph; what gradients and passes build with. The table and the graph outlive it.
class Builder : public ops::GraphBuilder {
 public:
  Builder(const ops::OpTable& table, Graph& graph, std::string prefix = "");

  /// A new node is named by the prefix, then with its operator, then with a number: the first of
  /// these that is free.
  std::vector<Value> add(std::string_view op, std::vector<Value> inputs,
                         const ops::Attributes& attributes) override;
  /// The sum of values, one at least, in their order: a call of add_n or, of more than it takes,
  /// several.
  Value add_sum(std::vector<Value> parts);
  /// The caller keeps names of variables apart.
  Value add_variable(std::string name);
  /// A node as it is.
  std::vector<Value> add_node(GraphNode node);
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  /// Marks later nodes of operators as GraphNode::backward.
  void set_backward(bool backward) { backward_ = backward; }

 private:
  std::string free_name(std::string_view op);

  const ops::OpTable& table_;
  Graph& graph_;
  std::string prefix_;
  std::unordered_set<std::string> names_;
  /// By name without number: the least number that may be free.
  std::unordered_map<std::string, int> numbers_;
  bool backward_ = false;
};

/// Text that errors begin with: "[fully_connected fc1]".
std::string node_label(const GraphNode& node);

}  // namespace troupe::symbol
