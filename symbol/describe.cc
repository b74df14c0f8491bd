// SPDX-License-Identifier: Apache-2.0
// Memory estimates and graphviz text.
#include "symbol/describe.h"

#include <fmt/core.h>

#include <algorithm>

#include "symbol/gradient.h"
#include "symbol/infer.h"
#include "symbol/passes.h"
#include "symbol/plan_memory.h"

namespace troupe::symbol {

namespace {

/// The request that plans `graph` with dense tensors and without scratch.
PlanRequest dense_request(const Graph& graph, const ValueShapes& shapes,
                          const ValueDTypes& dtypes) {
  PlanRequest request;
  request.graph = &graph;
  const std::vector<std::size_t> first = graph.first_values();
  for (std::size_t v = 0; v < first.back(); ++v) {
    request.value_bytes.push_back(static_cast<std::size_t>(shapes[v].elements()) *
                                  base::dtype_size(dtypes[v]));
    std::size_t kind = 0;
    while (shapes[kind] != shapes[v] || dtypes[kind] != dtypes[v]) ++kind;
    request.value_kind.push_back(static_cast<int>(kind));
  }
  request.external.assign(first.back(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].is_variable()) request.external[first[i]] = true;
  }
  for (Value head : graph.heads) {
    request.external[first[static_cast<std::size_t>(head.node)] +
                     static_cast<std::size_t>(head.output)] = true;
  }
  request.scratch_bytes.assign(graph.nodes.size(), 0);
  return request;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string node_text(const GraphNode& node) {
  if (node.is_variable()) return node.name;
  std::string text = node.name + "\n" + node.op->name;
  for (const auto& [name, value] : node.params.to_attributes()) {
    const ops::ParamDef* param = node.op->find_param(name);
    const bool usual = param->initial && ops::to_attribute(*param->initial) == value;
    if (!usual) text += fmt::format("\n{}={}", name, value);
  }
  return text;
}

}  // namespace

base::Result<MemoryEstimate> estimate_memory(const ops::OpTable& table, const Symbol& symbol,
                                             const std::map<std::string, base::Shape>& known,
                                             std::span<const std::string> wrt) {
  TROUPE_TRY(symbol.validate());
  const Graph flat = symbol.graph();
  // Shapes of all arguments come from the whole symbol: prediction may not use its label.
  TROUPE_TRY_ASSIGN(const ValueShapes all, infer_shapes(flat, known));
  TROUPE_TRY(check_complete(flat, all));
  Graph graph;
  if (wrt.empty()) {
    TROUPE_TRY_ASSIGN(graph, freeze(table, flat));
  } else {
    TROUPE_TRY_ASSIGN(Differentiated result, differentiate(table, flat, wrt));
    graph = prune(result.graph);
  }
  std::map<std::string, base::Shape> shapes_by_name;
  const std::vector<std::size_t> flat_first = flat.first_values();
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    if (!flat.nodes[i].is_variable()) continue;
    const auto& nodes = graph.nodes;
    const bool kept = std::any_of(nodes.begin(), nodes.end(), [&](const GraphNode& node) {
      return node.is_variable() && node.name == flat.nodes[i].name;
    });
    if (kept) shapes_by_name.emplace(flat.nodes[i].name, all[flat_first[i]]);
  }
  TROUPE_TRY_ASSIGN(const ValueShapes shapes, infer_shapes(graph, shapes_by_name));
  TROUPE_TRY(check_complete(graph, shapes));
  TROUPE_TRY_ASSIGN(const ValueDTypes dtypes, infer_dtypes(graph, {}));

  const PlanRequest request = dense_request(graph, shapes, dtypes);
  const MemoryPlan plan = plan_memory(request);
  MemoryEstimate estimate;
  estimate.planned_bytes = plan.arena_bytes;
  estimate.unshared_bytes = plan.unshared_bytes;
  const std::vector<std::size_t> first = graph.first_values();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (!node.is_variable()) {
      for (std::size_t v = first[i]; v < first[i + 1]; ++v) {
        if (request.external[v]) estimate.output_bytes += request.value_bytes[v];
      }
      continue;
    }
    estimate.argument_bytes += request.value_bytes[first[i]];
    if (std::find(wrt.begin(), wrt.end(), node.name) != wrt.end()) {
      estimate.parameters += static_cast<std::size_t>(shapes[first[i]].elements());
    }
  }
  return estimate;
}

std::string to_dot(const Symbol& symbol, const std::map<std::string, base::Shape>& known) {
  const Graph graph = symbol.graph();
  const std::vector<std::size_t> first = graph.first_values();
  const base::Result<ValueShapes> shapes = infer_shapes(graph, known);
  std::string text = "digraph symbol {\n  rankdir=BT;\n  node [fontname=\"sans-serif\"];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    text += fmt::format("  n{} [label={}, shape={}];\n", i, quoted(node_text(node)),
                        node.is_variable() ? "ellipse" : "box");
    for (Value input : node.inputs) {
      const std::size_t v =
          first[static_cast<std::size_t>(input.node)] + static_cast<std::size_t>(input.output);
      const bool shown = shapes.ok() && (*shapes)[v].rank_known();
      text += fmt::format("  n{} -> n{} [label={}];\n", input.node, i,
                          quoted(shown ? (*shapes)[v].to_string() : ""));
    }
  }
  return text + "}\n";
}

}  // namespace troupe::symbol
