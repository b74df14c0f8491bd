// SPDX-License-Identifier: Apache-2.0
// One walk over the nodes.
#include "symbol/prologue.h"

namespace troupe::symbol {

std::vector<bool> prologue_nodes(const PreparedGraph& prepared,
                                 const std::set<std::string>& weights) {
  const Graph& graph = prepared.graph;
  std::vector<bool> marks(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.is_variable() || node.op->name != "reorder") continue;
    const GraphNode& source = graph.node(node.inputs[0]);
    marks[i] = source.is_variable() && weights.contains(source.name);
  }
  for (const Value head : graph.heads) marks[static_cast<std::size_t>(head.node)] = false;
  return marks;
}

}  // namespace troupe::symbol
