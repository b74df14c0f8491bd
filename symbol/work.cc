// SPDX-License-Identifier: Apache-2.0
// Sums over nodes.
#include "symbol/work.h"

namespace troupe::symbol {

Work node_work(const Graph& graph, const ValueNumbers& numbers, const ValueShapes& shapes,
               std::size_t index) {
  const GraphNode& node = graph.nodes[index];
  ops::OpCall call;
  call.op = node.op;
  call.params = node.params;
  for (const Value input : node.inputs) {
    call.inputs.push_back({base::DType::f32, shapes[numbers[input]], {}, false});
  }
  for (std::size_t v = numbers.begin(index); v < numbers.end(index); ++v) {
    call.outputs.push_back({base::DType::f32, shapes[v], {}, false});
  }
  Work work;
  work.flops = node.op->flops ? node.op->flops(call)
                              : static_cast<double>(call.outputs.front().shape.elements());
  if (node.op->multiplies_and_adds) work.multiply_adds = work.flops / 2;
  return work;
}

base::Result<Work> forward_work(const Symbol& symbol,
                                const std::map<std::string, base::Shape>& known) {
  const Graph graph = symbol.graph();
  const ValueNumbers numbers(graph);
  TROUPE_TRY_ASSIGN(const ValueShapes shapes, infer_shapes(graph, known));
  TROUPE_TRY(check_complete(graph, shapes));
  Work sum;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].is_variable()) continue;
    const Work work = node_work(graph, numbers, shapes, i);
    sum.flops += work.flops;
    sum.multiply_adds += work.multiply_adds;
  }
  return sum;
}

}  // namespace troupe::symbol
