// SPDX-License-Identifier: Apache-2.0
// One walk in topological order.
#include "symbol/prologue.h"

namespace troupe::symbol {

std::vector<bool> prologue_nodes(const PreparedGraph& prepared,
                                 const std::set<std::string>& weights) {
  const Graph& graph = prepared.graph;
  std::vector<bool> fixed(graph.nodes.size(), false);  // by weights
  std::vector<bool> is_head(graph.nodes.size(), false);
  for (const Value head : graph.heads) is_head[static_cast<std::size_t>(head.node)] = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.is_variable()) {
      fixed[i] = weights.contains(node.name);
      continue;
    }
    fixed[i] = !node.inputs.empty() && !node.op->random && !is_head[i];
    for (const Value input : node.inputs) {
      if (!fixed[static_cast<std::size_t>(input.node)]) fixed[i] = false;
    }
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].is_variable()) fixed[i] = false;
  }
  return fixed;
}

}  // namespace troupe::symbol
