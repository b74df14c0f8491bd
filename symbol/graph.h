// SPDX-License-Identifier: Apache-2.0
// Graph: a symbol laid out flat, nodes in topological order, as passes and executors read it.
// Plain value; passes take graphs and give new ones. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/op.h"
#include "ops/table.h"

namespace troupe::symbol {

/// Output `output` of node `node` (an index into Graph::nodes).
using ops::Value;

/// A variable (no operator) or one call of an operator.
struct GraphNode {
  std::string name;
  const ops::OpDef* op = nullptr;  ///< null: a variable
  ops::Params params;
  ops::Attributes extra;  ///< attributes like __shape__ that no operator reads
  std::vector<Value> inputs;
  int outputs = 1;  ///< hidden ones included
  /// Name of the random stream: the node's own, or its original's after recomputation.
  std::string random_name;

  bool is_variable() const { return op == nullptr; }
};

/// Nodes such that inputs come before users, and the values that the graph is for.
struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<Value> heads;

  const GraphNode& node(Value value) const { return nodes[static_cast<std::size_t>(value.node)]; }
  /// "fc1_output", "bn1_batch_mean", or a variable's own name.
  std::string value_name(Value value) const;
  /// Position of value (node, 0) when all outputs of all nodes are numbered in order; one more
  /// entry than nodes, the last is their total.
  std::vector<std::size_t> first_values() const;
  /// True per node for variables that some operator takes as auxiliary state.
  std::vector<bool> auxiliary_marks() const;
  /// Indices of variables that are arguments (or auxiliary states), in topological order.
  std::vector<std::int64_t> arguments() const;
  std::vector<std::int64_t> auxiliary_states() const;
};

/// Adds nodes to a graph; what gradients and passes build with.
class Builder : public virtual ops::GraphBuilder {
 public:
  Builder(const ops::OpTable& table, Graph& graph, std::string prefix)
      : table_(table), graph_(graph), prefix_(std::move(prefix)) {}

  std::vector<Value> add(std::string_view op, std::vector<Value> inputs,
                         const ops::Attributes& attributes) override;
  Value add_variable(std::string name);
  /// Later nodes are named `prefix`, then their operator where needed to keep names unique.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

 private:
  const ops::OpTable& table_;
  Graph& graph_;
  std::string prefix_;
};

/// Text that errors begin with: "[fully_connected fc1]".
std::string node_label(const GraphNode& node);

}  // namespace troupe::symbol
