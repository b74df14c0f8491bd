// SPDX-License-Identifier: Apache-2.0
// Sums over nodes.
#include "symbol/work.h"

#include <set>

#include "ops/roofline.h"
#include "symbol/infer.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

Work call_work(const ops::OpCall& call) {
  Work work;
  work.flops = ops::flops_of(call);
  if (call.op->multiplies_and_adds) work.multiply_adds = work.flops / 2;
  return work;
}

namespace {

/// Of node `index`, which is no variable; shapes are complete.
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
  return call_work(call);
}

}  // namespace

base::Result<NetworkSize> network_size(const Symbol& symbol,
                                       const std::map<std::string, base::Shape>& known) {
  const Graph graph = symbol.graph();
  const ValueNumbers numbers(graph);
  TROUPE_TRY_ASSIGN(const ValueShapes shapes, infer_shapes(graph, known));
  TROUPE_TRY(check_complete(graph, shapes));
  const std::vector<std::string> names = symbol.list_parameters();
  const std::set<std::string> learned(names.begin(), names.end());
  NetworkSize size;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].is_variable()) {
      const Work work = node_work(graph, numbers, shapes, i);
      size.forward.flops += work.flops;
      size.forward.multiply_adds += work.multiply_adds;
    } else if (learned.contains(graph.nodes[i].name)) {
      size.parameters += static_cast<std::uint64_t>(shapes[numbers.begin(i)].elements());
    }
  }
  return size;
}

}  // namespace troupe::symbol
