// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation: nodes are visited in reverse topological order, and each adds the
// nodes that its operator's gradient names.
#include "symbol/gradient.h"

#include <fmt/core.h>

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "symbol/infer.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

using base::Errc;

/// The state of one differentiation.
class Differentiator {
 public:
  Differentiator(const ops::OpTable& table, const Graph& graph, const ValueDTypes& dtypes,
                 std::string_view loss_scale = {})
      : graph_(graph),
        dtypes_(dtypes),
        loss_scale_(loss_scale),
        forward_nodes_(graph.nodes.size()),
        numbers_(graph),
        builder_(table, graph_),
        contributions_(numbers_.size()),
        ones_(numbers_.size(), 0) {}

  base::Result<Differentiated> run(std::span<const std::string> wrt);
  /// Adds the backward pass: per argument its gradient, or nothing where it is zero.
  base::Result<std::vector<std::optional<Value>>> backward(
      std::span<const std::string> wrt, std::vector<HeadGradient>& head_gradients);

 private:
  friend class NodeGradient;

  base::Result<std::vector<Value>> find_arguments(std::span<const std::string> wrt) const;
  void mark_dependents(const std::vector<Value>& arguments);
  std::vector<HeadGradient> seed_heads();
  std::optional<Value> sum(Value value);
  bool has_gradient(Value value) const;
  bool reached(std::int64_t node) const;
  base::Status check_outputs(std::int64_t node) const;
  base::Status visit(std::int64_t node);
  base::Status check_scaled(std::int64_t node) const;
  Value scaled(Value gradient, base::DType dtype);

  Graph graph_;
  const ValueDTypes& dtypes_;        // of the forward graph
  const std::string loss_scale_;     // a variable's name; empty: none
  std::optional<Value> scale_ = {};  // its first value
  const std::size_t forward_nodes_;
  const ValueNumbers numbers_;  // of the forward graph
  Builder builder_;
  std::vector<bool> depends_;  // per forward node: reaches back to a wanted argument
  std::vector<std::vector<Value>> contributions_;  // per forward value
  std::vector<std::size_t> ones_;  // per forward value: head gradients of ones, not yet built
};

/// What an operator's gradient function sees.
class NodeGradient final : public ops::GradientBuilder {
 public:
  NodeGradient(Differentiator& all, std::int64_t index)
      : all_(all), index_(index), node_(all.graph_.node({index, 0})) {}

  std::vector<Value> add(std::string_view op, std::vector<Value> inputs,
                         const ops::Attributes& attributes) override {
    return all_.builder_.add(op, std::move(inputs), attributes);
  }
  const ops::Params& params() const override { return node_.params; }
  int input_count() const override { return static_cast<int>(node_.inputs.size()); }
  Value input(int index) override { return node_.inputs.at(static_cast<std::size_t>(index)); }
  Value output(int index) override {
    TROUPE_CHECK(index >= 0 && index < node_.outputs, "gradient asks for an output that is not");
    return {index_, index};
  }
  std::optional<Value> output_gradient(int index) override {
    const std::optional<Value> total = all_.sum(output(index));
    all_.builder_.set_prefix(node_.name + "_backward");  // sums are named after their value
    return total;
  }
  bool wanted(int index) const override {
    const Value from = node_.inputs.at(static_cast<std::size_t>(index));
    return all_.depends_[node_index(from)];
  }

 private:
  Differentiator& all_;
  const std::int64_t index_;
  const GraphNode node_;  // a copy: the graph grows meanwhile
};

base::Result<std::vector<Value>> Differentiator::find_arguments(
    std::span<const std::string> wrt) const {
  std::unordered_map<std::string_view, Value> variables;
  for (std::size_t i = 0; i < forward_nodes_; ++i) {
    if (!graph_.nodes[i].is_variable()) continue;
    variables.try_emplace(graph_.nodes[i].name, Value{static_cast<std::int64_t>(i), 0});
  }
  std::vector<Value> arguments;
  for (const std::string& name : wrt) {
    const auto it = variables.find(name);
    if (it == variables.end()) {
      return base::error(Errc::not_found, "gradient: the symbol has no argument '{}'", name);
    }
    arguments.push_back(it->second);
    const base::DType dtype = dtypes_[numbers_[arguments.back()]];
    if (!base::is_floating(dtype)) {
      return base::error(Errc::invalid_argument,
                         "gradient: argument '{}' is {}; only floating arguments have a gradient",
                         name, base::dtype_name(dtype));
    }
  }
  return arguments;
}

void Differentiator::mark_dependents(const std::vector<Value>& arguments) {
  depends_.assign(forward_nodes_, false);
  for (Value argument : arguments) depends_[node_index(argument)] = true;
  for (std::size_t i = 0; i < forward_nodes_; ++i) {
    const GraphNode& node = graph_.nodes[i];
    if (!node.is_variable() && node.op->cuts_gradient) continue;
    for (Value input : node.inputs) {
      if (depends_[node_index(input)]) depends_[i] = true;
    }
  }
}

/// Ones for losses (made when somebody asks), variables for the others.
std::vector<HeadGradient> Differentiator::seed_heads() {
  std::vector<HeadGradient> seeded;
  std::map<std::string, int> uses;
  std::set<std::string> taken;  // by variables
  for (const GraphNode& node : graph_.nodes) {
    if (node.is_variable()) taken.insert(node.name);
  }
  const std::vector<Value> heads = graph_.heads;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const GraphNode& node = graph_.node(heads[i]);
    if (!node.is_variable() && node.op->is_loss) {
      ++ones_[numbers_[heads[i]]];
      continue;
    }
    std::string name = graph_.value_name(heads[i]) + "_head_gradient";
    if (const int use = ++uses[name]; use > 1) name += fmt::format("_{}", use);
    while (taken.contains(name)) name += "_";
    taken.insert(name);
    contributions_[numbers_[heads[i]]].push_back(builder_.add_variable(name));
    seeded.push_back({std::move(name), i, depends_[node_index(heads[i])]});
  }
  return seeded;
}

/// The gradient of a forward value: its contributions added in the order in which they came.
std::optional<Value> Differentiator::sum(Value value) {
  std::vector<Value>& parts = contributions_[numbers_[value]];
  const auto set_prefix = [&] { builder_.set_prefix(graph_.value_name(value) + "_gradient"); };
  if (const std::size_t times = std::exchange(ones_[numbers_[value]], 0); times > 0) {
    set_prefix();
    parts.insert(parts.begin(), times, builder_.add1("ones_like", {value}));
  }
  if (parts.empty()) return std::nullopt;
  if (parts.size() > 1) {
    set_prefix();
    parts.assign(1, builder_.add_sum(parts));
  }
  return parts.front();
}

bool Differentiator::has_gradient(Value value) const {
  return ones_[numbers_[value]] > 0 || !contributions_[numbers_[value]].empty();
}

/// True for a call between a wanted argument and an output.
bool Differentiator::reached(std::int64_t index) const {
  const GraphNode& node = graph_.node({index, 0});
  if (node.is_variable() || !depends_[static_cast<std::size_t>(index)]) return false;
  for (int output = 0; output < node.outputs; ++output) {
    if (has_gradient({index, output})) return true;
  }
  return false;
}

/// An error where a gradient comes to an output that can have none.
base::Status Differentiator::check_outputs(std::int64_t index) const {
  const GraphNode& node = graph_.node({index, 0});
  const int visible = node.op->visible_output_count(node.params);
  for (int output = 0; output < node.outputs; ++output) {
    const Value value{index, output};
    const base::DType dtype = dtypes_[numbers_[value]];
    if (!has_gradient(value) || (output < visible && base::is_floating(dtype))) continue;
    return base::error(Errc::invalid_argument,
                       "{} {} is {} and has no gradient, but a wanted argument reaches the outputs "
                       "through it; stop_gradient before the operator ends the way",
                       node_label(node), graph_.value_name(value),
                       output < visible ? base::dtype_name(dtype) : "a hidden output");
  }
  return {};
}

base::Status Differentiator::visit(std::int64_t index) {
  const GraphNode node = graph_.node({index, 0});
  if (!node.op->gradient) {
    return base::error(Errc::invalid_argument,
                       "{} has no gradient, but a wanted argument reaches the outputs through it",
                       node_label(node));
  }
  TROUPE_TRY(check_outputs(index));
  NodeGradient view(*this, index);
  builder_.set_prefix(node.name + "_backward");
  TROUPE_TRY(check_scaled(index));
  base::Result<std::vector<std::optional<Value>>> result = node.op->gradient(view);
  if (!result.ok()) return result.status().with_context(node_label(node));
  TROUPE_CHECK(result->size() == node.inputs.size(),
               node_label(node) + " gradient must have one entry per input");
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Value input = node.inputs[i];
    const std::optional<Value>& part = (*result)[i];
    if (part && depends_[node_index(input)]) {
      const bool begins = !loss_scale_.empty() && node.op->is_loss;
      contributions_[numbers_[input]].push_back(begins ? scaled(*part, dtypes_[numbers_[input]])
                                                       : *part);
    }
  }
  return {};
}

/// With a loss scale every loss begins gradients: one that has some from elsewhere would scale them
/// twice, or, where it ignores them, pass on one that is not scaled.
base::Status Differentiator::check_scaled(std::int64_t index) const {
  const GraphNode& node = graph_.node({index, 0});
  if (loss_scale_.empty() || !node.op->is_loss) return {};
  for (int output = 0; output < node.outputs; ++output) {
    if (contributions_[numbers_[{index, output}]].empty()) continue;
    return base::error(Errc::invalid_argument,
                       "{} is a loss that another operator reads on the way to an output: under a "
                       "loss scale a loss must be an output alone; stop_gradient ends the way",
                       node_label(node));
  }
  return {};
}

Value Differentiator::scaled(Value gradient, base::DType dtype) {
  if (!scale_) {
    builder_.set_prefix(loss_scale_ + "_first");
    const Value both = builder_.add_variable(loss_scale_);
    scale_ = builder_.add1("slice_axis", {both}, {{"axis", "0"}, {"begin", "0"}, {"end", "1"}});
  }
  builder_.set_prefix(graph_.value_name(gradient) + "_scaled");
  const auto cast = [&](Value value, base::DType to) {
    return builder_.add1("cast", {value}, {{"dtype", std::string(base::dtype_name(to))}});
  };
  // In the wider of both types: f16 holds no scale of 65,536.
  if (dtype == base::DType::f32) return builder_.add1("multiply", {gradient, *scale_});
  if (dtype == base::DType::f64) {
    return builder_.add1("multiply", {gradient, cast(*scale_, dtype)});
  }
  const Value wide = cast(gradient, base::DType::f32);
  return cast(builder_.add1("multiply", {wide, *scale_}), dtype);
}

base::Result<std::vector<std::optional<Value>>> Differentiator::backward(
    std::span<const std::string> wrt, std::vector<HeadGradient>& head_gradients) {
  TROUPE_TRY_ASSIGN(const std::vector<Value> arguments, find_arguments(wrt));
  mark_dependents(arguments);
  builder_.set_backward(true);
  head_gradients = seed_heads();
  for (auto node = static_cast<std::int64_t>(forward_nodes_) - 1; node >= 0; --node) {
    if (reached(node)) TROUPE_TRY(visit(node));
  }
  std::vector<std::optional<Value>> totals;
  for (const Value argument : arguments) totals.push_back(sum(argument));
  return totals;
}

base::Result<Differentiated> Differentiator::run(std::span<const std::string> wrt) {
  Differentiated result;
  TROUPE_TRY_ASSIGN(const auto totals, backward(wrt, result.head_gradients));
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (!totals[i]) {
      return base::error(Errc::invalid_argument,
                         "gradient: no output depends on argument '{}' in a differentiable way",
                         wrt[i]);
    }
    graph_.heads.push_back(*totals[i]);
  }
  result.graph = std::move(graph_);
  return result;
}

}  // namespace

base::Result<Differentiated> differentiate(const ops::OpTable& table, const Graph& graph,
                                           std::span<const std::string> wrt,
                                           const ValueDTypes& dtypes, std::string_view loss_scale) {
  return Differentiator(table, graph, dtypes, loss_scale).run(wrt);
}

base::Result<std::vector<std::string>> without_gradient(const ops::OpTable& table,
                                                        const Graph& graph,
                                                        std::span<const std::string> wrt,
                                                        const std::vector<base::DType>& dtypes) {
  std::vector<HeadGradient> head_gradients;
  TROUPE_TRY_ASSIGN(const auto totals,
                    Differentiator(table, graph, dtypes).backward(wrt, head_gradients));
  std::vector<std::string> without;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (!totals[i]) without.push_back(wrt[i]);
  }
  return without;
}

base::Result<Symbol> gradient(const ops::OpTable& table, const Symbol& symbol,
                              std::span<const std::string> wrt) {
  TROUPE_TRY(symbol.validate());
  const Graph flat = symbol.graph();
  TROUPE_TRY_ASSIGN(const ValueDTypes dtypes, infer_dtypes(flat, {}));
  TROUPE_TRY_ASSIGN(Differentiated result, differentiate(table, flat, wrt, dtypes));
  result.graph.heads.erase(
      result.graph.heads.begin(),
      result.graph.heads.begin() + static_cast<std::ptrdiff_t>(flat.heads.size()));
  return Symbol::from_graph(result.graph);
}

}  // namespace troupe::symbol
