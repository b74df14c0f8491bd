// SPDX-License-Identifier: Apache-2.0
// Symbols as handles on shared, immutable nodes.
#include "symbol/symbol.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "symbol/infer.h"
#include "symbol/node.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

using base::Errc;

Node::~Node() {
  // A chain of a million nodes must not be a recursion of a million calls.
  std::vector<Symbol::Entry> pending = std::move(inputs);
  while (!pending.empty()) {
    std::shared_ptr<const Node> node = std::move(pending.back().node);
    pending.pop_back();
    if (node == nullptr || node.use_count() > 1) continue;
    for (Symbol::Entry& entry : node->inputs) pending.push_back(std::move(entry));
    node->inputs.clear();
  }
}

Symbol Symbol::variable(std::string name, ops::Attributes extra) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  node->extra = std::move(extra);
  Symbol symbol;
  symbol.outputs_.push_back({std::move(node), 0});
  return symbol;
}

Symbol Symbol::group(std::span<const Symbol> symbols) {
  Symbol all;
  for (const Symbol& symbol : symbols) {
    all.outputs_.insert(all.outputs_.end(), symbol.outputs_.begin(), symbol.outputs_.end());
  }
  return all;
}

namespace {

bool extra_attribute(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

/// Attributes split into those the operator reads and those kept beside them.
void split_attributes(const ops::Attributes& attributes, ops::Attributes& given,
                      ops::Attributes& extra) {
  for (const auto& [name, value] : attributes) {
    (extra_attribute(name) ? extra : given).emplace(name, value);
  }
}

base::Status check_input_names(const std::string& label, const std::vector<std::string>& names,
                               const Inputs& inputs) {
  if (inputs.positional.size() > names.size()) {
    return base::error(Errc::invalid_argument, "{} takes {} inputs ({}), {} are given", label,
                       names.size(), fmt::join(names, ", "), inputs.positional.size());
  }
  for (const auto& [name, unused] : inputs.named) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      return base::error(Errc::invalid_argument, "{} has no input '{}'; it takes {}", label, name,
                         fmt::join(names, ", "));
    }
    if (static_cast<std::size_t>(it - names.begin()) < inputs.positional.size()) {
      return base::error(Errc::invalid_argument, "{} input '{}' is given twice", label, name);
    }
  }
  return {};
}

}  // namespace

/// What an operator's attributes say of the variables that it makes: how they learn and begin. Its
/// shape is its own.
static ops::Attributes for_input(const ops::OpDef& op, std::size_t input, ops::Attributes extra) {
  extra.erase("__shape__");
  const bool state = std::ranges::any_of(op.auxiliary, [&](const ops::AuxiliaryState& each) {
    return static_cast<std::size_t>(each.input) == input;
  });
  if (state) extra.erase("__init__");  // averages begin where the operator says
  std::erase_if(extra, [](const auto& attribute) { return !attribute.first.starts_with("__"); });
  return extra;
}

base::Result<Symbol> Symbol::create(const ops::OpTable& table, std::string_view op,
                                    std::string name, const Inputs& inputs,
                                    const ops::Attributes& attributes) {
  TROUPE_TRY_ASSIGN(const ops::OpDef* definition, table.find(op));
  const std::string label = fmt::format("[{}{}{}]", op, name.empty() ? "" : " ", name);
  auto node = std::make_shared<Node>();
  node->op = definition;
  ops::Attributes given;
  split_attributes(attributes, given, node->extra);
  base::Result<ops::Params> params =
      ops::Params::parse(definition->params,
                         ops::with_num_args(*definition, std::move(given),
                                            inputs.positional.size() + inputs.named.size()),
                         definition->ignored);
  if (!params.ok()) return params.status().with_context(label);
  node->params = std::move(params).value();
  const std::vector<std::string> names = definition->inputs(node->params);
  TROUPE_TRY(check_input_names(label, names, inputs));
  for (std::size_t i = 0; i < names.size(); ++i) {
    Symbol source;
    if (i < inputs.positional.size()) {
      source = inputs.positional[i];
    } else if (const auto it = inputs.named.find(names[i]); it != inputs.named.end()) {
      source = it->second;
    } else if (!name.empty()) {
      source =
          variable(fmt::format("{}_{}", name, names[i]), for_input(*definition, i, node->extra));
    } else {
      return base::error(Errc::invalid_argument,
                         "{} needs a name, from which its input '{}' gets one", label, names[i]);
    }
    if (source.outputs_.size() != 1) {
      return base::error(Errc::invalid_argument,
                         "{} input '{}' must be one value; a symbol of {} is given", label,
                         names[i], source.outputs_.size());
    }
    node->inputs.push_back(source.outputs_.front());
  }
  node->name = std::move(name);
  node->outputs = static_cast<int>(definition->outputs(node->params).size());
  Symbol result;
  const int visible = definition->visible_output_count(node->params);
  for (int i = 0; i < visible; ++i) result.outputs_.push_back({node, i});
  return result;
}

Symbol Symbol::operator[](std::size_t index) const {
  TROUPE_CHECK(index < outputs_.size(), "symbol has no such output");
  Symbol one;
  one.outputs_.push_back(outputs_[index]);
  return one;
}

base::Result<Symbol> Symbol::output(std::string_view name) const {
  const std::vector<std::string> names = list_outputs();
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name || names[i] == std::string(name) + "_output") found = i;
  }
  if (!found) {
    return base::error(Errc::not_found, "the symbol has no output '{}'", name);
  }
  return (*this)[*found];
}

namespace {

/// Nodes in depth-first order of inputs, every node once.
std::vector<const Node*> topological(const std::vector<const Node*>& roots) {
  std::vector<const Node*> order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<const Node*, std::size_t>> stack;
  for (const Node* root : roots) {
    if (seen.insert(root).second) stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == node->inputs.size()) {
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      const Node* input = node->inputs[next++].node.get();
      if (seen.insert(input).second) stack.emplace_back(input, 0);
    }
  }
  return order;
}

/// Gives unnamed nodes "<operator><k>", with the lowest free k.
void name_nodes(Graph& graph) {
  std::unordered_set<std::string> names;
  for (const GraphNode& node : graph.nodes) names.insert(node.name);
  std::unordered_map<std::string, int> next;
  for (GraphNode& node : graph.nodes) {
    while (node.name.empty()) {
      std::string name = fmt::format("{}{}", node.op ? node.op->name : "variable",
                                     next[node.op ? node.op->name : "variable"]++);
      if (names.insert(name).second) node.name = std::move(name);
    }
  }
}

}  // namespace

Graph Symbol::laid_out() const {
  std::vector<const Node*> roots;
  for (const Entry& entry : outputs_) roots.push_back(entry.node.get());
  const std::vector<const Node*> order = topological(roots);
  std::unordered_map<const Node*, std::int64_t> index;
  Graph graph;
  for (const Node* node : order) {
    index.emplace(node, static_cast<std::int64_t>(graph.nodes.size()));
    GraphNode flat{node->name, node->op, node->params, node->extra, {}, node->outputs};
    for (const Entry& input : node->inputs) {
      flat.inputs.push_back({index.at(input.node.get()), input.output});
    }
    graph.nodes.push_back(std::move(flat));
  }
  for (const Entry& entry : outputs_) {
    graph.heads.push_back({index.at(entry.node.get()), entry.output});
  }
  return graph;
}

Graph Symbol::graph() const {
  Graph graph = laid_out();
  name_nodes(graph);
  return graph;
}

base::Result<Symbol> Symbol::compose(const std::map<std::string, Symbol>& replacements) const {
  Graph flat = laid_out();
  std::vector<bool> unnamed;
  for (const GraphNode& node : flat.nodes) unnamed.push_back(node.name.empty());
  name_nodes(flat);
  std::vector<std::shared_ptr<const Node>> made;
  std::vector<std::optional<Entry>> replaced(flat.nodes.size());
  std::unordered_set<std::string> used;
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    GraphNode& source = flat.nodes[i];
    auto node = std::make_shared<Node>();
    const auto it = source.is_variable() ? replacements.find(source.name) : replacements.end();
    if (it != replacements.end()) {
      if (it->second.outputs_.size() != 1) {
        return base::error(Errc::invalid_argument,
                           "'{}' must be replaced by one value; a symbol of {} is given",
                           source.name, it->second.outputs_.size());
      }
      replaced[i] = it->second.outputs_.front();
      used.insert(source.name);
    }
    for (Value input : source.inputs) {
      const std::size_t from = node_index(input);
      node->inputs.push_back(replaced[from] ? *replaced[from] : Entry{made[from], input.output});
    }
    node->take(std::move(source));
    if (unnamed[i]) node->name.clear();  // numbered where the whole is laid out
    made.push_back(std::move(node));
  }
  for (const auto& [name, unused] : replacements) {
    if (!used.contains(name)) {
      return base::error(Errc::not_found, "the symbol has no variable '{}'", name);
    }
  }
  Symbol result;
  for (Value head : flat.heads) {
    const std::size_t from = node_index(head);
    result.outputs_.push_back(replaced[from] ? *replaced[from] : Entry{made[from], head.output});
  }
  return result;
}

Symbol Symbol::from_graph(const Graph& graph) {
  std::vector<std::shared_ptr<const Node>> made;
  for (GraphNode source : graph.nodes) {
    auto node = std::make_shared<Node>();
    for (Value input : source.inputs) {
      node->inputs.push_back({made[node_index(input)], input.output});
    }
    node->take(std::move(source));
    made.push_back(std::move(node));
  }
  Symbol symbol;
  for (Value head : graph.heads) {
    symbol.outputs_.push_back({made[node_index(head)], head.output});
  }
  return symbol;
}

Symbol Symbol::internals() const {
  Graph flat = graph();
  flat.heads.clear();
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    const GraphNode& node = flat.nodes[i];
    const int visible = node.is_variable() ? 1 : node.op->visible_output_count(node.params);
    for (int output = 0; output < visible; ++output) {
      flat.heads.push_back({static_cast<std::int64_t>(i), output});
    }
  }
  return from_graph(flat);
}

namespace {

std::vector<std::string> names_of(const Graph& graph, const std::vector<std::int64_t>& nodes) {
  std::vector<std::string> names;
  for (std::int64_t node : nodes) names.push_back(graph.node({node, 0}).name);
  return names;
}

}  // namespace

std::vector<std::string> Symbol::list_arguments() const {
  const Graph flat = graph();
  return names_of(flat, flat.arguments());
}

std::vector<std::string> Symbol::list_parameters() const {
  std::vector<std::string> names = list_arguments();
  std::erase_if(names,
                [](const std::string& name) { return name == "data" || name.ends_with("label"); });
  return names;
}

std::vector<std::string> Symbol::list_auxiliary_states() const {
  const Graph flat = graph();
  return names_of(flat, flat.auxiliary_states());
}

std::vector<std::string> Symbol::list_outputs() const {
  const Graph flat = graph();
  std::vector<std::string> names;
  for (Value head : flat.heads) names.push_back(flat.value_name(head));
  return names;
}

base::Status Symbol::validate() const {
  const Graph flat = graph();
  std::unordered_set<std::string> names;
  for (const GraphNode& node : flat.nodes) {
    if (!names.insert(node.name).second) {
      return base::error(Errc::invalid_argument, "two nodes of the symbol are called '{}'",
                         node.name);
    }
  }
  return {};
}

base::Result<InferredShapes> Symbol::infer_shapes(
    const std::map<std::string, base::Shape>& known) const {
  const Graph flat = graph();
  TROUPE_TRY_ASSIGN(const ValueShapes shapes, symbol::infer_shapes(flat, known));
  const ValueNumbers numbers(flat);
  const auto at = [&](Value value) { return shapes[numbers[value]]; };
  InferredShapes result;
  for (std::int64_t node : flat.arguments()) result.arguments.push_back(at({node, 0}));
  for (std::int64_t node : flat.auxiliary_states()) result.auxiliary.push_back(at({node, 0}));
  for (Value head : flat.heads) result.outputs.push_back(at(head));
  result.complete = check_complete(flat, shapes).ok();
  return result;
}

base::Result<InferredDTypes> Symbol::infer_dtypes(
    const std::map<std::string, base::DType>& known) const {
  const Graph flat = graph();
  TROUPE_TRY_ASSIGN(const ValueDTypes dtypes, symbol::infer_dtypes(flat, known));
  const ValueNumbers numbers(flat);
  const auto at = [&](Value value) { return dtypes[numbers[value]]; };
  InferredDTypes result;
  for (std::int64_t node : flat.arguments()) result.arguments.push_back(at({node, 0}));
  for (std::int64_t node : flat.auxiliary_states()) result.auxiliary.push_back(at({node, 0}));
  for (Value head : flat.heads) result.outputs.push_back(at(head));
  return result;
}

}  // namespace troupe::symbol
