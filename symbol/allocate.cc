// SPDX-License-Identifier: Apache-2.0
// allocate_bindings: arrays for everything that a symbol needs.
#include <span>
#include <vector>

#include "symbol/executor.h"
#include "symbol/infer.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

/// Initial values of auxiliary states by node, as the first operator that takes each says.
std::map<std::int64_t, double> initial_values(const Graph& graph) {
  std::map<std::int64_t, double> values;
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable()) continue;
    for (const ops::AuxiliaryState& state : node.op->auxiliary) {
      values.try_emplace(node.input(state.input).node, state.initial);
    }
  }
  return values;
}

base::Result<ndarray::NDArray> filled(ndarray::Runtime& runtime, const base::Shape& shape,
                                      base::DType dtype, base::Device device, double value) {
  if (value == 0) return ndarray::NDArray::zeros(runtime, shape, dtype, device);
  ndarray::NDArray array;
  TROUPE_TRY(ops::with_real(dtype, [&](auto zero) -> base::Status {
    using T = decltype(zero);
    const std::vector<T> elements(static_cast<std::size_t>(shape.elements()),
                                  static_cast<T>(value));
    TROUPE_TRY_ASSIGN(array,
                      ndarray::NDArray::from_bytes(runtime, shape, dtype,
                                                   std::as_bytes(std::span(elements)), device));
    return {};
  }));
  return array;
}

}  // namespace

base::Result<Bindings> allocate_bindings(ndarray::Runtime& runtime, const Symbol& symbol,
                                         const std::map<std::string, base::Shape>& known,
                                         base::DType dtype, base::Device device, Content content) {
  TROUPE_TRY(symbol.validate());
  const Graph graph = symbol.graph();
  TROUPE_TRY_ASSIGN(const ValueShapes shapes, infer_shapes(graph, known));
  TROUPE_TRY(check_complete(graph, shapes));
  TROUPE_TRY_ASSIGN(const ValueDTypes dtypes, infer_dtypes(graph, {}, dtype));
  const ValueNumbers numbers(graph);
  const auto array = [&](std::int64_t node, double value) {
    const std::size_t v = numbers[{node, 0}];
    return content == Content::initial
               ? filled(runtime, shapes[v], dtypes[v], device, value)
               : ndarray::NDArray::empty(runtime, shapes[v], dtypes[v], device);
  };
  Bindings bindings;
  for (std::int64_t node : graph.arguments()) {
    TROUPE_TRY_ASSIGN(bindings.arguments[graph.node({node, 0}).name], array(node, 0));
  }
  const std::map<std::int64_t, double> initial = initial_values(graph);
  for (std::int64_t node : graph.auxiliary_states()) {
    TROUPE_TRY_ASSIGN(bindings.auxiliary[graph.node({node, 0}).name],
                      array(node, initial.at(node)));
  }
  return bindings;
}

}  // namespace troupe::symbol
