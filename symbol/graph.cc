// SPDX-License-Identifier: Apache-2.0
// The flat form of symbols, and the builder that gradients and passes use.
#include "symbol/graph.h"

#include <fmt/core.h>

#include <algorithm>

namespace troupe::symbol {

const std::string& GraphNode::random_name() const {
  const auto it = extra.find("__random_name__");
  return it == extra.end() ? name : it->second;
}

bool GraphNode::is_relu() const {
  return !is_variable() && op->name == "activation" && params.text("act_type") == "relu";
}

bool GraphNode::reads(std::size_t index) const {
  TROUPE_CHECK(index < inputs.size(), "a node without such an input");
  const std::vector<int>& unread = op->shape_only_inputs;
  return std::find(unread.begin(), unread.end(), static_cast<int>(index)) == unread.end();
}

std::string Graph::value_name(Value value) const {
  const GraphNode& owner = node(value);
  if (owner.is_variable()) return owner.name;
  const std::vector<std::string> names = owner.op->outputs(owner.params);
  if (names.size() == 1) return owner.name + "_output";
  return owner.name + "_" + names[static_cast<std::size_t>(value.output)];
}

std::vector<bool> Graph::auxiliary_marks() const {
  std::vector<bool> marks(nodes.size(), false);
  for (const GraphNode& user : nodes) {
    if (user.is_variable()) continue;
    for (const ops::AuxiliaryState& state : user.op->auxiliary) {
      const Value input = user.input(state.input);
      if (node(input).is_variable()) marks[node_index(input)] = true;
    }
  }
  return marks;
}

namespace {

std::vector<std::int64_t> variables(const Graph& graph, bool auxiliary) {
  const std::vector<bool> marks = graph.auxiliary_marks();
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].is_variable() && marks[i] == auxiliary) {
      found.push_back(static_cast<std::int64_t>(i));
    }
  }
  return found;
}

}  // namespace

std::vector<std::int64_t> Graph::arguments() const {
  return variables(*this, false);
}
std::vector<std::int64_t> Graph::auxiliary_states() const {
  return variables(*this, true);
}

std::string node_label(const GraphNode& node) {
  return fmt::format("[{} {}]", node.is_variable() ? "variable" : node.op->name, node.name);
}

Builder::Builder(const ops::OpTable& table, Graph& graph, std::string prefix)
    : table_(table), graph_(graph), prefix_(std::move(prefix)) {
  for (const GraphNode& node : graph.nodes) names_.insert(node.name);
}

std::string Builder::free_name(std::string_view op) {
  if (!names_.contains(prefix_)) return prefix_;
  const std::string stem = fmt::format("{}_{}", prefix_, op);
  if (!names_.contains(stem)) return stem;
  for (int& number = numbers_.try_emplace(stem, 2).first->second;; ++number) {
    std::string name = fmt::format("{}{}", stem, number);
    if (!names_.contains(name)) return name;
  }
}

std::vector<Value> Builder::add(std::string_view op, std::vector<Value> inputs,
                                const ops::Attributes& attributes) {
  GraphNode node;
  node.op = &table_.at(op);
  base::Result<ops::Params> params = ops::Params::parse(node.op->params, attributes);
  TROUPE_CHECK(params.ok(), fmt::format("[{}] {}", op, params.status().to_string()));
  node.params = std::move(params).value();
  const std::size_t expected = node.op->inputs(node.params).size();
  TROUPE_CHECK(inputs.size() == expected,
               fmt::format("[{}] built with {} inputs, it takes {}", op, inputs.size(), expected));
  node.inputs = std::move(inputs);
  node.outputs = static_cast<int>(node.op->outputs(node.params).size());
  node.name = free_name(node.op->name);
  node.backward = backward_;
  return add_node(std::move(node));
}

Value Builder::add_sum(std::vector<Value> parts) {
  const auto most = static_cast<std::ptrdiff_t>(table_.at("add_n").params.front().high);
  auto begin = parts.begin();
  while (parts.end() - begin > 1) {
    const auto count = std::min(parts.end() - begin, most);
    const Value sum = add1("add_n", {begin, begin + count}, {{"num_args", std::to_string(count)}});
    begin += count - 1;
    *begin = sum;
  }
  return *begin;
}

Value Builder::add_variable(std::string name) {
  GraphNode node;
  node.name = std::move(name);
  return add_node(std::move(node)).front();
}

std::vector<Value> Builder::add_node(GraphNode node) {
  names_.insert(node.name);
  const auto index = static_cast<std::int64_t>(graph_.nodes.size());
  std::vector<Value> outputs;
  for (int output = 0; output < node.outputs; ++output) outputs.push_back({index, output});
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

}  // namespace troupe::symbol
