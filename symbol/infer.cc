// SPDX-License-Identifier: Apache-2.0
// Inference: sweeps forth and back over the nodes that may tell something new, until none is left.
#include "symbol/infer.h"

#include <fmt/core.h>

#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "symbol/mxnet.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

using base::Errc;
using base::Shape;
using OptionalDType = std::optional<base::DType>;

std::string to_text(const Shape& shape) {
  return shape.to_string();
}
std::string to_text(const OptionalDType& dtype) {
  return dtype ? std::string(base::dtype_name(*dtype)) : "?";
}

/// What two values that must agree tell together; an error when they differ, or when the shape
/// known so far has too many axes or elements.
base::Result<Shape> merge(const Shape& a, const Shape& b) {
  TROUPE_TRY_ASSIGN(const Shape merged, base::merge_shapes(a, b));
  TROUPE_TRY(base::check_shape(merged));
  return merged;
}
base::Result<OptionalDType> merge(const OptionalDType& a, const OptionalDType& b) {
  if (!a) return b;
  if (b && *a != *b) {
    return base::error(Errc::invalid_argument, "{} contradicts {}", to_text(a), to_text(b));
  }
  return a;
}

/// "data (2, 3), weight (...)"
template <typename T>
std::string list(const Graph& graph, const GraphNode& node, const std::vector<T>& inputs) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", graph.value_name(node.inputs[i]),
                        to_text(inputs[i]));
  }
  return text;
}

/// The sweeps; T is what is inferred, `infer` asks an operator. A node is asked again only when
/// something was learnt about its inputs or outputs, since otherwise it would say the same: so the
/// work grows with what is learnt, not with the number of sweeps.
template <typename T, typename Infer>
class Sweeper {
 public:
  Sweeper(const Graph& graph, std::vector<T>& values, Infer infer)
      : graph_(graph),
        numbers_(graph),
        values_(values),
        infer_(std::move(infer)),
        around_(values.size()) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].is_variable()) continue;
      for (const Value input : graph_.nodes[i].inputs) around_[numbers_[input]].push_back(i);
      for (std::size_t v = numbers_.begin(i); v < numbers_.end(i); ++v) around_[v].push_back(i);
      pending_.insert(pending_.end(), i);
    }
  }

  base::Status run() {
    for (bool forth = true; !pending_.empty(); forth = !forth) {
      TROUPE_TRY(forth ? sweep_forth() : sweep_back());
    }
    return {};
  }

  /// Goes on, behind run(), from what somebody has just said about value number `value`.
  base::Status follow(std::size_t value) {
    note(value);
    std::vector<std::size_t> nodes = around_[value];
    while (!nodes.empty()) {
      const std::size_t node = nodes.back();
      nodes.pop_back();
      if (!pending_.contains(node)) continue;  // asked since
      TROUPE_TRY(visit(node));
      for (const std::size_t learnt : learnt_) {
        nodes.insert(nodes.end(), around_[learnt].begin(), around_[learnt].end());
      }
    }
    return {};
  }

 private:
  /// Nodes that become pending behind the sweep wait for the next one, those before it do not.
  base::Status sweep_forth() {
    for (auto at = pending_.begin(); at != pending_.end();) {
      const std::size_t node = *at;
      TROUPE_TRY(visit(node));
      at = pending_.upper_bound(node);
    }
    return {};
  }
  base::Status sweep_back() {
    for (auto at = pending_.end(); at != pending_.begin();) {
      const std::size_t node = *--at;
      TROUPE_TRY(visit(node));
      at = pending_.lower_bound(node);
    }
    return {};
  }

  T& value(Value v) { return values_[numbers_[v]]; }

  void note(std::size_t learnt) {
    learnt_.push_back(learnt);
    pending_.insert(around_[learnt].begin(), around_[learnt].end());
  }

  base::Status visit(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    pending_.erase(index);
    learnt_.clear();
    std::vector<T> inputs, outputs;
    for (Value input : node.inputs) inputs.push_back(value(input));
    for (int i = 0; i < node.outputs; ++i) {
      outputs.push_back(value({static_cast<std::int64_t>(index), i}));
    }
    const std::vector<T> before = inputs;
    const base::Status status = infer_(node, inputs, outputs);
    if (!status.ok()) return fail(node, before, status);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TROUPE_TRY(learn(node, before, node.inputs[i], inputs[i]));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TROUPE_TRY(
          learn(node, before, {static_cast<std::int64_t>(index), static_cast<int>(i)}, outputs[i]));
    }
    return {};
  }

  base::Status learn(const GraphNode& node, const std::vector<T>& before, Value v, const T& news) {
    T& known = value(v);
    base::Result<T> merged = merge(known, news);
    if (!merged.ok()) {
      return fail(node, before, merged.status().with_context(graph_.value_name(v)));
    }
    if (*merged == known) return {};
    known = std::move(merged).value();
    note(numbers_[v]);
    return {};
  }

  base::Status fail(const GraphNode& node, const std::vector<T>& inputs,
                    const base::Status& status) const {
    return base::error(status.code(), "{} {}; inputs: {}", node_label(node), status.text(),
                       list(graph_, node, inputs));
  }

  const Graph& graph_;
  const ValueNumbers numbers_;
  std::vector<T>& values_;
  Infer infer_;
  std::vector<std::vector<std::size_t>> around_;  // per value: nodes that read or make it
  std::set<std::size_t> pending_;                 // nodes that may tell something new
  std::vector<std::size_t> learnt_;               // values, by the last visit
};

template <typename T>
base::Status check_names(const Graph& graph, const std::map<std::string, T>& known) {
  std::unordered_set<std::string_view> names;
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable()) names.insert(node.name);
  }
  for (const auto& [name, unused] : known) {
    if (!names.contains(name)) {
      return base::error(Errc::invalid_argument, "the symbol has no argument '{}'", name);
    }
  }
  return {};
}

base::Status apply_known(const Graph& graph, const ValueNumbers& numbers,
                         const std::map<std::string, Shape>& known, ValueShapes& shapes) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (!node.is_variable()) continue;
    Shape& own = shapes[numbers.begin(i)];
    if (const auto it = known.find(node.name); it != known.end()) {
      const base::Result<Shape> given = merge(own, it->second);
      if (!given.ok()) return given.status().with_context(node_label(node));
      own = *given;
    }
    if (const auto it = node.extra.find("__shape__"); it != node.extra.end() && !own.complete()) {
      base::Result<Shape> shape = declared_shape(it->second);
      if (shape.ok()) shape = merge(own, *shape);
      if (!shape.ok()) return shape.status().with_context(node_label(node) + " __shape__");
      own = *shape;
    }
  }
  return {};
}

base::Status ask_dtypes(const GraphNode& node, std::vector<OptionalDType>& inputs,
                        std::vector<OptionalDType>& outputs) {
  if (node.op->infer_dtype) return node.op->infer_dtype(node.params, inputs, outputs);
  return ops::infer_same_dtype(node.params, inputs, outputs);
}

}  // namespace

base::Result<ValueShapes> infer_shapes(const Graph& graph,
                                       const std::map<std::string, base::Shape>& known) {
  TROUPE_TRY(check_names(graph, known));
  const ValueNumbers numbers(graph);
  ValueShapes shapes(numbers.size(), Shape::unknown());
  TROUPE_TRY(apply_known(graph, numbers, known, shapes));
  const auto ask = [](const GraphNode& node, std::vector<Shape>& inputs,
                      std::vector<Shape>& outputs) {
    const auto& infer = node.op->infer_shape;
    return infer ? infer(node.params, inputs, outputs)
                 : ops::infer_same_shape(node.params, inputs, outputs);
  };
  Sweeper sweeper(graph, shapes, ask);
  TROUPE_TRY(sweeper.run());
  return shapes;
}

base::Status check_complete(const Graph& graph, const ValueShapes& shapes) {
  const ValueNumbers numbers(graph);
  std::string missing, values;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (std::size_t v = numbers.begin(i); v < numbers.end(i); ++v) {
      if (shapes[v].complete()) continue;
      const Value value{static_cast<std::int64_t>(i), static_cast<int>(v - numbers.begin(i))};
      std::string& text = graph.nodes[i].is_variable() ? missing : values;
      constexpr std::size_t kTextMost = 1000;
      if (text.size() > kTextMost) {
        if (!text.ends_with(", ...")) text += ", ...";
        continue;
      }
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", graph.value_name(value),
                          shapes[v].to_string());
    }
  }
  if (missing.empty() && values.empty()) return {};
  return base::error(Errc::invalid_argument, "not enough is known to infer the shapes of: {}",
                     missing.empty() ? values : missing);
}

base::Result<ValueDTypes> infer_dtypes(const Graph& graph,
                                       const std::map<std::string, base::DType>& known,
                                       base::DType otherwise) {
  TROUPE_TRY(check_names(graph, known));
  const ValueNumbers numbers(graph);
  std::vector<OptionalDType> dtypes(numbers.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (!node.is_variable()) continue;
    if (const auto it = known.find(node.name); it != known.end()) {
      dtypes[numbers.begin(i)] = it->second;
    } else if (const auto extra = node.extra.find("__dtype__"); extra != node.extra.end()) {
      const base::Result<OptionalDType> dtype = declared_dtype(extra->second);
      if (!dtype.ok()) return dtype.status().with_context(node_label(node) + " __dtype__");
      dtypes[numbers.begin(i)] = *dtype;
    }
  }
  Sweeper sweeper(graph, dtypes, ask_dtypes);
  TROUPE_TRY(sweeper.run());
  for (std::size_t v = 0; v < dtypes.size(); ++v) {
    if (dtypes[v]) continue;
    std::vector<OptionalDType> before;
    if (base::is_16_bit(otherwise)) before = dtypes;
    dtypes[v] = otherwise;
    base::Status fits = sweeper.follow(v);
    if (!fits.ok() && !before.empty()) {  // as labels, whose classes 16 bits do not hold
      dtypes = std::move(before);
      dtypes[v] = base::DType::f32;
      if (sweeper.follow(v).ok()) fits = {};
    }
    TROUPE_TRY(std::move(fits));
  }
  ValueDTypes result;
  for (const OptionalDType& dtype : dtypes) result.push_back(*dtype);
  return result;
}

}  // namespace troupe::symbol
