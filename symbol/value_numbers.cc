// SPDX-License-Identifier: Apache-2.0
// Numbering the values of a graph.
#include "symbol/value_numbers.h"

#include "symbol/graph.h"

namespace troupe::symbol {

ValueNumbers::ValueNumbers(const Graph& graph) {
  first_.reserve(graph.nodes.size() + 1);
  for (const GraphNode& node : graph.nodes) add_node(node.outputs);
}

}  // namespace troupe::symbol
