// SPDX-License-Identifier: Apache-2.0
// One walk finds who lets a rectifier pass, another writes the graph.
#include "symbol/rectifiers.h"

#include <utility>

namespace troupe::symbol {

namespace {

/// True when every window has a part of the image inside. One of padding alone gives the lowest
/// number, which a rectifier behind it would change.
bool covers_image(const ops::Params& params) {
  if (params.boolean("global_pool") || params.text("pooling_convention") == "valid") return true;
  const auto extent = [&params](const char* name, int axis, std::int64_t absent) {
    const base::Shape& given = params.shape(name);
    return given.rank() == 0 ? absent : given[axis];
  };
  for (int axis = 0; axis < 2; ++axis) {
    if (extent("pad", axis, 0) + extent("stride", axis, 1) > extent("kernel", axis, 1))
      return false;
  }
  return true;
}

/// True for operators that give the same before and behind a rectifier of all their inputs.
bool commutes(const GraphNode& node) {
  if (node.is_variable()) return false;
  if (node.op->name == "concat") return true;
  return node.op->name == "pooling" && node.params.text("pool_type") == "max" &&
         covers_image(node.params);
}

/// True for a rectifier that may go. One behind a batch normalisation stays: that one does its work
/// on the way, and has a gradient that reads no output.
bool is_rectifier(const Graph& graph, const GraphNode& node) {
  if (node.is_variable() || node.op->name != "activation") return false;
  const GraphNode& before = graph.node(node.inputs[0]);
  const bool normalised = !before.is_variable() && before.op->name == "batch_norm";
  return node.params.text("act_type") == "relu" && !normalised;
}

/// How often the graph uses the outputs of each node, hidden ones included.
struct Uses {
  explicit Uses(const Graph& graph) : all(graph.nodes.size(), 0), hidden(graph.nodes.size(), 0) {
    for (const GraphNode& node : graph.nodes) {
      for (const Value input : node.inputs) count(input);
    }
    for (const Value head : graph.heads) count(head);
  }
  void count(Value value) {
    ++all[node_index(value)];
    if (value.output > 0) ++hidden[node_index(value)];
  }

  std::vector<int> all, hidden;
};

}  // namespace

Graph delay_rectifiers(const Graph& graph) {
  const Uses uses(graph);
  std::vector<bool> passes(graph.nodes.size(), false);     // behind this node a rectifier may stand
  std::vector<bool> rectified(graph.nodes.size(), false);  // and one does, or this is one
  std::vector<bool> moved(graph.nodes.size(), false);      // it goes on behind the only user
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    passes[i] = commutes(node) && uses.hidden[i] == 0;
    for (const Value input : node.inputs) {
      const std::size_t from = node_index(input);
      passes[i] = passes[i] && rectified[from] && uses.all[from] == 1;
    }
    for (const Value input : node.inputs) moved[node_index(input)] = passes[i];
    rectified[i] = passes[i] || is_rectifier(graph, node);
  }
  Graph result;
  std::vector<Value> bare(graph.nodes.size());  // per rectified node: its output without rectifier
  std::vector<std::size_t> last(graph.nodes.size());  // and that rectifier, a node of `graph`
  std::vector<std::int64_t> index(graph.nodes.size(), -1);
  const auto map = [&index](Value v) { return Value{index[node_index(v)], v.output}; };
  const auto add = [&result](GraphNode node) {
    result.nodes.push_back(std::move(node));
    return static_cast<std::int64_t>(result.nodes.size()) - 1;
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    GraphNode node = graph.nodes[i];
    for (Value& input : node.inputs) input = passes[i] ? bare[node_index(input)] : map(input);
    if (!rectified[i]) {
      index[i] = add(std::move(node));
      continue;
    }
    last[i] = passes[i] ? last[node_index(graph.nodes[i].input(0))] : i;
    bare[i] = passes[i] ? Value{add(std::move(node)), 0} : node.input(0);
    if (moved[i]) continue;
    GraphNode rectifier = graph.nodes[last[i]];
    rectifier.inputs[0] = bare[i];
    index[i] = add(std::move(rectifier));
  }
  for (const Value head : graph.heads) result.heads.push_back(map(head));
  return result;
}

}  // namespace troupe::symbol
