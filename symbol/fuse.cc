// SPDX-License-Identifier: Apache-2.0
// One walk finds what each node takes in, one writes the new graph.
#include "symbol/fuse.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "symbol/passes.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

namespace {

class Fusion {
 public:
  Fusion(const Graph& graph, bool narrow)
      : graph_(graph),
        narrow_(narrow),
        numbers_(graph),
        reader_(numbers_.size()),
        read_(numbers_.size()),
        taken_(graph.nodes.size()),
        heads_(graph.nodes.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const Value input : graph.nodes[i].inputs) {
        add_reader(input, i);
        read_[numbers_[input]] = true;
      }
    }
    for (const Value head : graph.heads) {
      add_reader(head, kSeveral);
      heads_[node_index(head)] = true;
    }
  }

  Graph run() {
    // From behind, so that of two nodes before a sum the later one is met first.
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) find_epilogue(i);
    return write();
  }

 private:
  static constexpr std::size_t kSeveral = static_cast<std::size_t>(-1);

  /// What a node takes in.
  struct Epilogue {
    std::optional<Value> addend;
    bool relu = false;
    std::size_t last = 0;  // node whose place the fused one takes
  };

  void add_reader(Value value, std::size_t node) {
    std::optional<std::size_t>& reader = reader_[numbers_[value]];
    reader = reader ? kSeveral : node;
  }

  /// The only node that reads output 0 of `node`, if it can be taken in.
  const std::size_t* only_reader(std::size_t node) const {
    const std::optional<std::size_t>& reader = reader_[numbers_.begin(node)];
    if (!reader || *reader == kSeveral || taken_[*reader] || heads_[*reader]) return nullptr;
    return &*reader;
  }

  static bool is_sum_of_two(const GraphNode& node) {
    const bool sum = node.op->name == "add_elemwise" || node.op->name == "add_n";
    return sum && node.inputs.size() == 2;
  }

  /// True when another output of the node is read by another node, which might come too early.
  bool shows_more(std::size_t node) const {
    for (std::size_t v = numbers_.begin(node) + 1; v < numbers_.end(node); ++v) {
      if (read_[v]) return true;
    }
    return false;
  }

  /// True when another node moves one of this node's states. They take turns in the graph's order.
  bool shares_state(const GraphNode& node) const {
    return std::any_of(
        node.op->auxiliary.begin(), node.op->auxiliary.end(),
        [&](const auto& state) { return reader_[numbers_[node.input(state.input)]] == kSeveral; });
  }

  void find_epilogue(std::size_t index) {
    const GraphNode& node = graph_.nodes[index];
    if (node.is_variable() || !node.op->epilogue || shows_more(index) || shares_state(node)) {
      return;
    }
    // The gradient finds out from the hidden outputs where relu was zero.
    if (narrow_ && node.op->recomputation) return;
    if (node.params.boolean("with_sum") || node.params.text("act_type") != "none") return;
    Epilogue epilogue{std::nullopt, false, index};
    const std::size_t* next = only_reader(index);
    if (next != nullptr && is_sum_of_two(graph_.nodes[*next])) {
      const GraphNode& sum = graph_.nodes[*next];
      epilogue.addend = sum.inputs[node_index(sum.inputs[0]) == index ? 1 : 0];
      epilogue.last = *next;
      next = only_reader(*next);
    }
    if (next != nullptr && graph_.nodes[*next].is_relu()) {
      epilogue.relu = true;
      epilogue.last = *next;
    }
    if (epilogue.last == index) return;
    for (std::size_t at = index; at != epilogue.last; at = *reader_[numbers_.begin(at)]) {
      taken_[at] = true;
    }
    taken_[epilogue.last] = true;
    fused_.emplace(epilogue.last, std::pair(index, epilogue));
  }

  Graph write() const {
    Graph result;
    std::vector<std::vector<Value>> mapped(graph_.nodes.size());
    const auto map = [&mapped](Value v) {
      return mapped[node_index(v)][static_cast<std::size_t>(v.output)];
    };
    const auto append = [&](std::size_t from, GraphNode node) {
      for (Value& input : node.inputs) input = map(input);
      for (int output = 0; output < node.outputs; ++output) {
        mapped[from].push_back({static_cast<std::int64_t>(result.nodes.size()), output});
      }
      result.nodes.push_back(std::move(node));
    };
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto fused = fused_.find(i);
      if (fused != fused_.end()) {
        const auto& [index, epilogue] = fused->second;
        append(index, with_epilogue(graph_.nodes[index], epilogue));
        mapped[i] = {mapped[index].front()};
      } else if (!taken_[i]) {
        append(i, graph_.nodes[i]);
      }
    }
    for (const Value head : graph_.heads) result.heads.push_back(map(head));
    return result;
  }

  static GraphNode with_epilogue(GraphNode node, const Epilogue& epilogue) {
    ops::Attributes attributes = node.params.to_attributes();
    if (epilogue.relu) attributes["act_type"] = "relu";
    if (epilogue.addend) {
      attributes["with_sum"] = "True";
      node.inputs.push_back(*epilogue.addend);
    }
    node.params = ops::parse_params(*node.op, attributes).value();
    return node;
  }

  const Graph& graph_;
  const bool narrow_;
  const ValueNumbers numbers_;
  std::vector<std::optional<std::size_t>> reader_;  // per value: its only one, or kSeveral
  std::vector<bool> read_;                          // per value: by a node
  std::vector<bool> taken_;                         // per node: part of a fused one
  std::vector<bool> heads_;                         // per node
  std::map<std::size_t, std::pair<std::size_t, Epilogue>> fused_;  // by its last node
};

/// The convolution that the normalisation `node` can be folded into, as an index.
std::optional<std::size_t> foldable(const Graph& graph, const GraphNode& node,
                                    const std::vector<int>& readers, const ValueDTypes& dtypes,
                                    const ValueNumbers& numbers) {
  if (node.is_variable() || node.op->name != "batch_norm_inference") return std::nullopt;
  const std::size_t index = node_index(node.inputs[0]);
  const GraphNode& before = graph.nodes[index];
  if (before.is_variable() || before.op->name != "convolution" || readers[index] != 1 ||
      node.params.integer("axis") != 1) {
    return std::nullopt;
  }
  const ops::Params& p = before.params;
  if (p.boolean("with_sum") || p.text("act_type") != "none") return std::nullopt;
  constexpr std::size_t kVectorsEnd = 5;
  const base::DType dtype = dtypes[numbers[before.inputs[1]]];
  const auto fits = [&](Value value) {
    return graph.node(value).is_variable() && dtypes[numbers[value]] == dtype;
  };
  const bool constant =
      std::all_of(before.inputs.begin() + 1, before.inputs.end(), fits) &&
      std::all_of(node.inputs.begin() + 1, node.inputs.begin() + kVectorsEnd, fits);
  return constant ? std::optional(index) : std::nullopt;
}

/// The attributes of `from` that are named here.
ops::Attributes some_of(const ops::Attributes& from, std::initializer_list<const char*> names) {
  ops::Attributes some;
  for (const char* name : names) some[name] = from.at(name);
  return some;
}

/// How often the graph uses the outputs of each node.
std::vector<int> count_readers(const Graph& graph) {
  std::vector<int> readers(graph.nodes.size(), 0);
  for (const GraphNode& node : graph.nodes) {
    for (const Value input : node.inputs) ++readers[node_index(input)];
  }
  for (const Value head : graph.heads) ++readers[node_index(head)];
  return readers;
}

/// The sum that the relu's gradient `node` can take in, as an index, and the parameters with which
/// it does.
struct GradientSum {
  std::size_t index;
  ops::Params params;
};
std::optional<GradientSum> sum_before(const Graph& graph, const GraphNode& node,
                                      const std::vector<int>& readers) {
  if (node.is_variable() || node.op->name != "activation_backward" ||
      node.params.text("act_type") != "relu" || node.params.integer("num_gradients") != 1) {
    return std::nullopt;
  }
  const std::size_t index = node_index(node.inputs[0]);
  const GraphNode& before = graph.nodes[index];
  if (before.is_variable() || before.op->name != "add_n" || readers[index] != 1) {
    return std::nullopt;
  }
  ops::Attributes attributes = node.params.to_attributes();
  attributes["num_gradients"] = std::to_string(before.inputs.size());
  const base::Result<ops::Params> params = ops::parse_params(*node.op, attributes);
  return params.ok() ? std::optional(GradientSum{index, *params}) : std::nullopt;  // too many
}

}  // namespace

Graph fuse_gradient_sums(const Graph& graph) {
  if (assigns(graph)) return graph;  // a part of the sum might be overwritten before it is read
  const std::vector<int> readers = count_readers(graph);
  std::vector<std::optional<GradientSum>> sums;
  std::vector<bool> taken(graph.nodes.size(), false);
  for (const GraphNode& node : graph.nodes) {
    sums.push_back(sum_before(graph, node, readers));
    if (sums.back()) taken[sums.back()->index] = true;
  }
  Graph result;
  std::vector<std::int64_t> mapped(graph.nodes.size(), -1);
  const auto map = [&mapped](Value v) { return Value{mapped[node_index(v)], v.output}; };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (taken[i]) continue;
    GraphNode node = graph.nodes[i];
    if (const auto& sum = sums[i]) {
      const std::vector<Value>& parts = graph.nodes[sum->index].inputs;
      node.params = sum->params;
      node.inputs.erase(node.inputs.begin());
      node.inputs.insert(node.inputs.begin(), parts.begin(), parts.end());
    }
    for (Value& input : node.inputs) input = map(input);
    mapped[i] = static_cast<std::int64_t>(result.nodes.size());
    result.nodes.push_back(std::move(node));
  }
  for (const Value head : graph.heads) result.heads.push_back(map(head));
  return result;
}

Graph fold_batch_norms(const ops::OpTable& table, const Graph& graph, const ValueDTypes& dtypes) {
  if (assigns(graph)) return graph;
  const std::vector<int> readers = count_readers(graph);
  const ValueNumbers numbers(graph);
  std::vector<bool> folded(graph.nodes.size(), false);
  for (const GraphNode& node : graph.nodes) {
    if (const auto index = foldable(graph, node, readers, dtypes, numbers)) folded[*index] = true;
  }
  Graph result;
  Builder builder(table, result);
  std::vector<std::vector<Value>> mapped(graph.nodes.size());
  const auto map = [&mapped](Value v) {
    return mapped[node_index(v)][static_cast<std::size_t>(v.output)];
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (folded[i]) continue;
    GraphNode node = graph.nodes[i];
    if (const auto index = foldable(graph, node, readers, dtypes, numbers)) {
      const GraphNode& before = graph.nodes[*index];
      const ops::Attributes norm = node.params.to_attributes();
      ops::Attributes fold = some_of(norm, {"eps", "fix_gamma"});
      fold.merge(some_of(before.params.to_attributes(), {"no_bias"}));
      std::vector<Value> inputs;
      for (auto v = before.inputs.begin() + 1; v != before.inputs.end(); ++v) {
        inputs.push_back(map(*v));
      }
      for (int k = 1; k <= 4; ++k) inputs.push_back(map(node.input(k)));
      builder.set_prefix(before.name + "_fold");
      const std::vector<Value> weights = builder.add("batch_norm_fold", std::move(inputs), fold);
      ops::Attributes attributes = before.params.to_attributes();
      attributes["no_bias"] = "False";
      for (const char* name : {"act_type", "with_sum"}) attributes[name] = norm.at(name);
      const std::vector<Value> addend(node.inputs.begin() + 5, node.inputs.end());
      node = before;
      node.params = ops::parse_params(*node.op, attributes).value();
      node.inputs = {map(before.inputs[0]), weights[0], weights[1]};
      for (const Value value : addend) node.inputs.push_back(map(value));
    } else {
      for (Value& input : node.inputs) input = map(input);
    }
    mapped[i] = builder.add_node(std::move(node));
  }
  for (const Value head : graph.heads) result.heads.push_back(map(head));
  return result;
}

Graph fuse_epilogues(const Graph& graph, bool narrow) {
  return assigns(graph) ? graph : Fusion(graph, narrow).run();
}

}  // namespace troupe::symbol
