// SPDX-License-Identifier: Apache-2.0
// One walk finds who lets a rectifier pass, another writes the graph.
#include "symbol/rectifiers.h"

#include <utility>

#include "symbol/passes.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

/// True for a rectifier that may go. One behind a batch normalisation stays: that one does its work
/// on the way, and has a gradient that reads no output.
bool is_rectifier(const Graph& graph, const GraphNode& node) {
  if (!node.is_relu()) return false;
  const GraphNode& before = graph.node(node.inputs[0]);
  return before.is_variable() || before.op->name != "batch_norm";
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

Graph delay_rectifiers(const Graph& graph, const ValueShapes& shapes) {
  if (assigns(graph)) return graph;
  const ValueNumbers numbers(graph);
  const auto commutes = [&](std::size_t index) {
    const GraphNode& node = graph.nodes[index];
    if (node.is_variable() || !node.op->commutes_with_relu) return false;
    const base::Shape& input = shapes[numbers[node.input(0)]];
    const base::Shape& output = shapes[numbers.begin(index)];
    const bool known = input.complete() && output.complete();
    return known && node.op->commutes_with_relu(node.params, input, output);
  };
  const Uses uses(graph);
  std::vector<bool> passes(graph.nodes.size(), false);     // behind this node a rectifier may stand
  std::vector<bool> rectified(graph.nodes.size(), false);  // and one does, or this is one
  std::vector<bool> moved(graph.nodes.size(), false);      // it goes on behind the only user
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    passes[i] = commutes(i) && uses.hidden[i] == 0;
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
