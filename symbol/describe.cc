// SPDX-License-Identifier: Apache-2.0
// Graphviz text.
#include "symbol/describe.h"

#include <fmt/core.h>

#include "base/text.h"
#include "symbol/infer.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string node_text(const GraphNode& node) {
  const std::string name = base::printable(node.name);
  if (node.is_variable()) return name;
  std::string text = name + "\n" + node.op->name;
  for (const auto& [param_name, value] : node.params.to_attributes()) {
    const ops::ParamDef* param = node.op->find_param(param_name);
    const bool usual = param->initial && ops::to_attribute(*param->initial) == value;
    if (!usual) text += "\n" + base::printable(fmt::format("{}={}", param_name, value));
  }
  return text;
}

}  // namespace

std::string to_dot(const Symbol& symbol, const std::map<std::string, base::Shape>& known) {
  const Graph graph = symbol.graph();
  const ValueNumbers numbers(graph);
  const base::Result<ValueShapes> shapes = infer_shapes(graph, known);
  std::string text = "digraph symbol {\n  rankdir=BT;\n  node [fontname=\"sans-serif\"];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    text += fmt::format("  n{} [label={}, shape={}];\n", i, in_quotes(node_text(node)),
                        node.is_variable() ? "ellipse" : "box");
    for (Value input : node.inputs) {
      const std::size_t v = numbers[input];
      const bool shown = shapes.ok() && (*shapes)[v].rank_known();
      text += fmt::format("  n{} -> n{} [label={}];\n", input.node, i,
                          in_quotes(shown ? (*shapes)[v].to_string() : ""));
    }
  }
  return text + "}\n";
}

}  // namespace troupe::symbol
