// SPDX-License-Identifier: Apache-2.0
// One walk over the nodes.
#include "symbol/prologue.h"

#include "symbol/passes.h"

namespace troupe::symbol {

std::vector<bool> prologue_nodes(const Graph& graph, const std::set<std::string>& weights) {
  std::vector<bool> marks(graph.nodes.size(), false);
  if (assigns(graph)) return marks;
  std::vector<bool> heads(graph.nodes.size(), false);
  for (const Value head : graph.heads) heads[node_index(head)] = true;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.is_variable() || heads[i] || !node.op->prepares_weights) continue;
    bool reads_weights = false, reads_more = false;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!node.reads(k)) continue;
      const GraphNode& source = graph.node(node.inputs[k]);
      const bool weight =
          source.is_variable() ? weights.contains(source.name) : marks[node_index(node.inputs[k])];
      (weight ? reads_weights : reads_more) = true;
    }
    marks[i] = reads_weights && !reads_more;
  }
  return marks;
}

}  // namespace troupe::symbol
