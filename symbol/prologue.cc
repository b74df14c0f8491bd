// SPDX-License-Identifier: Apache-2.0
// One walk over the nodes.
#include "symbol/prologue.h"

namespace troupe::symbol {

std::vector<bool> prologue_nodes(const Graph& graph, const std::set<std::string>& weights) {
  std::vector<bool> heads(graph.nodes.size(), false);
  for (const Value head : graph.heads) heads[node_index(head)] = true;
  // What the graph itself overwrites has one content before a pass and another behind it.
  std::vector<bool> overwritten(graph.nodes.size(), false);
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable() || !node.op->assign) continue;
    for (const Value input : node.inputs) overwritten[node_index(input)] = true;
  }
  std::vector<bool> marks(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.is_variable() || heads[i] || !node.op->prepares_weights) continue;
    bool reads_weights = false, reads_more = false;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!node.reads(k)) continue;
      const std::size_t from = node_index(node.inputs[k]);
      const GraphNode& source = graph.nodes[from];
      const bool weight =
          source.is_variable() ? weights.contains(source.name) && !overwritten[from] : marks[from];
      (weight ? reads_weights : reads_more) = true;
    }
    marks[i] = reads_weights && !reads_more;
  }
  return marks;
}

}  // namespace troupe::symbol
