// SPDX-License-Identifier: Apache-2.0
// Passes over flat graphs.
#include "symbol/passes.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace troupe::symbol {

Graph prune(const Graph& graph) {
  std::vector<bool> needed(graph.nodes.size(), false);
  for (Value head : graph.heads) needed[node_index(head)] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (Value input : graph.nodes[i].inputs) needed[node_index(input)] = true;
  }
  Graph result;
  std::vector<std::int64_t> index(graph.nodes.size(), -1);
  const auto map = [&index](Value v) { return Value{index[node_index(v)], v.output}; };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i]) continue;
    index[i] = static_cast<std::int64_t>(result.nodes.size());
    GraphNode node = graph.nodes[i];
    for (Value& input : node.inputs) input = map(input);
    result.nodes.push_back(std::move(node));
  }
  for (Value head : graph.heads) result.heads.push_back(map(head));
  return result;
}

namespace {

/// Text that two nodes share exactly when they compute the same values.
std::string expression(const GraphNode& node) {
  std::string text = node.op->name;
  for (const auto& [name, value] : node.params.to_attributes()) {
    text += fmt::format("|{}={}", name, value);
  }
  for (Value input : node.inputs) text += fmt::format("|{}:{}", input.node, input.output);
  return text;
}

}  // namespace

bool assigns(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [](const GraphNode& node) { return !node.is_variable() && node.op->assign; });
}

Graph eliminate_common_subexpressions(const Graph& graph) {
  if (assigns(graph)) return graph;  // one value may be another behind an assignment
  Graph result;
  std::vector<std::int64_t> index(graph.nodes.size(), -1);
  const auto map = [&index](Value v) { return Value{index[node_index(v)], v.output}; };
  std::map<std::string, std::int64_t> seen;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    GraphNode node = graph.nodes[i];
    for (Value& input : node.inputs) input = map(input);
    index[i] = static_cast<std::int64_t>(result.nodes.size());
    if (!node.is_variable() && !node.op->random && !node.op->assign) {
      const auto [it, fresh] = seen.emplace(expression(node), index[i]);
      index[i] = it->second;
      if (!fresh) continue;
    }
    result.nodes.push_back(std::move(node));
  }
  for (Value head : graph.heads) result.heads.push_back(map(head));
  return result;
}

namespace {

/// A hidden output that a predict form has left out.
constexpr Value kMissing{};

/// What an operator's predict form sees: its inputs in the new graph, and no gradients.
class PredictForm final : public ops::GradientBuilder {
 public:
  PredictForm(Builder& builder, const GraphNode& node) : builder_(builder), node_(node) {}

  std::vector<Value> add(std::string_view op, std::vector<Value> inputs,
                         const ops::Attributes& attributes) override {
    return builder_.add(op, std::move(inputs), attributes);
  }
  const ops::Params& params() const override { return node_.params; }
  int input_count() const override { return static_cast<int>(node_.inputs.size()); }
  Value input(int index) override {
    const Value value = node_.inputs.at(static_cast<std::size_t>(index));
    if (value == kMissing) missing_ = static_cast<std::size_t>(index);
    return value;
  }
  Value output(int) override {
    TROUPE_CHECK(false, node_label(node_) + " predict form cannot use the outputs it replaces");
    return {};
  }
  std::optional<Value> output_gradient(int) override { return std::nullopt; }
  bool wanted(int) const override { return false; }
  /// The input that was asked for and does not exist: the form is worth nothing then.
  std::optional<std::size_t> missing() const { return missing_; }

 private:
  Builder& builder_;
  const GraphNode& node_;
  std::optional<std::size_t> missing_;
};

/// Of the nodes from `first` on, which replace one called `name`, the one that gives `result` takes
/// the name: whoever knows the network looks for the result there.
void name_result(Graph& graph, std::size_t first, Value result, const std::string& name) {
  if (node_index(result) < first) return;
  const auto begin = graph.nodes.begin() + static_cast<std::ptrdiff_t>(first);
  const auto named = std::find_if(begin, graph.nodes.end(),
                                  [&name](const GraphNode& node) { return node.name == name; });
  if (named != graph.nodes.end()) std::swap(named->name, graph.nodes[node_index(result)].name);
}

}  // namespace

base::Result<Graph> freeze(const ops::OpTable& table, const Graph& graph) {
  Graph result;
  Builder builder(table, result);
  std::vector<std::vector<Value>> mapped(graph.nodes.size());
  const auto map = [&mapped](Value v) {
    const std::vector<Value>& outputs = mapped[node_index(v)];
    const auto output = static_cast<std::size_t>(v.output);
    return output < outputs.size() ? outputs[output] : kMissing;
  };
  const auto missing = [&graph](Value v) {
    return base::error(base::Errc::invalid_argument, "{} does not exist in prediction",
                       graph.value_name(v));
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    GraphNode node = graph.nodes[i];
    const bool rewritten = !node.is_variable() && node.op->predict_form;
    for (Value& input : node.inputs) {
      const Value from = input;
      input = map(from);
      if (input == kMissing && !rewritten) return missing(from);
    }
    if (!rewritten) {
      mapped[i] = builder.add_node(std::move(node));
      continue;
    }
    builder.set_prefix(node.name);
    PredictForm form(builder, node);
    const std::size_t first = result.nodes.size();
    base::Result<std::vector<Value>> values = node.op->predict_form(form);
    if (!values.ok()) return values.status().with_context(node_label(node));
    if (form.missing()) return missing(graph.nodes[i].inputs[*form.missing()]);
    mapped[i] = std::move(values).value();
    if (!mapped[i].empty() && mapped[i].front() != kMissing)
      name_result(result, first, mapped[i].front(), node.name);
  }
  for (Value head : graph.heads) {
    result.heads.push_back(map(head));
    if (result.heads.back() == kMissing) return missing(head);
  }
  return prune(result);
}

namespace {

/// The state of one separation of heads.
class HeadSeparator {
 public:
  HeadSeparator(const ops::OpTable& table, const Graph& graph, const GradientHeads& gradients)
      : graph_(graph), gradients_(gradients), builder_(table, result_) {
    result_.heads.resize(graph.heads.size());
  }

  Graph run() {
    std::vector<std::int64_t> index(graph_.nodes.size(), -1);
    std::vector<std::vector<std::size_t>> heads_of(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.heads.size(); ++i) {
      heads_of[node_index(graph_.heads[i])].push_back(i);
    }
    std::vector<std::size_t> late;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      GraphNode node = graph_.nodes[i];
      for (Value& input : node.inputs) input.node = index[node_index(input)];
      index[i] = builder_.add_node(std::move(node)).front().node;
      taken_.assign(static_cast<std::size_t>(graph_.nodes[i].outputs), false);
      for (std::size_t head : heads_of[i]) {
        result_.heads[head] = {index[i], graph_.heads[head].output};
        if (is_late(head)) {
          late.push_back(head);
        } else {
          separate(head);
        }
      }
    }
    for (std::size_t head : late) separate(head);
    return std::move(result_);
  }

 private:
  bool is_gradient(std::size_t head) const {
    return head >= gradients_.begin && head < gradients_.end;
  }
  /// The memory of a forward value must live until the backward pass has copied it.
  bool is_late(std::size_t head) const {
    const GraphNode& node = graph_.node(graph_.heads[head]);
    return is_gradient(head) && !node.backward && !node.is_variable();
  }

  /// Where result_.heads[head] is the value itself.
  void separate(std::size_t head) {
    const Value value = result_.heads[head];
    const GraphNode& node = graph_.node(graph_.heads[head]);
    const std::string name = graph_.value_name(graph_.heads[head]);
    const bool backward = node.backward || is_gradient(head);
    builder_.set_backward(backward);
    if (const auto it = gradients_.accumulators.find(head); it != gradients_.accumulators.end()) {
      builder_.set_prefix(name + "_add");
      const Value sum = builder_.add_variable(it->second);
      result_.heads[head] = builder_.add1("add_n", {sum, value}, {{"num_args", "2"}});
      return;
    }
    const auto output = static_cast<std::size_t>(value.output);
    if (!node.is_variable() && node.backward == backward && !taken_[output]) {
      taken_[output] = true;
      return;
    }
    builder_.set_prefix(name + "_copy");
    result_.heads[head] = builder_.add1("copy", {value});
  }

  const Graph& graph_;
  const GradientHeads& gradients_;
  Graph result_;
  Builder builder_;
  std::vector<bool> taken_;  // outputs of the node at hand whose memory is a head's
};

}  // namespace

Graph separate_heads(const ops::OpTable& table, const Graph& graph,
                     const GradientHeads& gradients) {
  return HeadSeparator(table, graph, gradients).run();
}

}  // namespace troupe::symbol
