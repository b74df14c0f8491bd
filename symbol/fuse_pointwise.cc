// SPDX-License-Identifier: Apache-2.0
// One walk from behind finds the groups, one writes the new graph.
#include "symbol/fuse_pointwise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ops/pointwise_chain.h"
#include "symbol/passes.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {
namespace {

class PointwiseFusion {
 public:
  PointwiseFusion(const ops::OpTable& table, const Graph& graph, const ValueShapes& shapes,
                  const ValueDTypes& dtypes)
      : table_(table),
        graph_(graph),
        numbers_(graph),
        shapes_(shapes),
        dtypes_(dtypes),
        readers_(graph.nodes.size()),
        heads_(graph.nodes.size()),
        sources_(graph.nodes.size()),
        last_reader_(numbers_.size(), 0),
        outside_(numbers_.size()),
        viewed_(numbers_.size()),
        group_of_(graph.nodes.size()) {
    for (const Value head : graph.heads) heads_[node_index(head)] = true;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].is_variable()) outside_[numbers_.begin(i)] = true;
      if (falls_away(i)) {
        sources_[i] = source_of(graph.nodes[i].inputs[0]);
        continue;
      }
      const GraphNode& node = graph.nodes[i];
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const Value source = source_of(node.inputs[k]);
        readers_[node_index(source)].push_back(i);
        if (node.reads(k)) last_reader_[numbers_[source]] = i;
        if (node.op->views) viewed_[numbers_[source]] = true;
      }
      for (std::size_t v = numbers_.begin(i); v < numbers_.end(i); ++v) {
        if (!node.is_variable() && node.op->views) viewed_[v] = true;
      }
    }
    for (const Value head : graph.heads) last_reader_[source_number(head)] = graph.nodes.size();
  }

  Graph run() {
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      if (fits(i)) place(i);
    }
    return write();
  }

 private:
  struct Group {
    std::vector<std::size_t> nodes;  // the last one first
    std::set<std::size_t> inputs;    // positions of values from outside
  };

  /// A node that is only another name of its input.
  bool falls_away(std::size_t i) const {
    const GraphNode& node = graph_.nodes[i];
    return !node.is_variable() && node.op->identity_if_alike && !heads_[i] &&
           shapes_[numbers_[node.inputs[0]]] == shapes_[numbers_.begin(i)];
  }

  Value source_of(Value value) const { return sources_[node_index(value)].value_or(value); }
  std::size_t source_number(Value value) const { return numbers_[source_of(value)]; }

  /// True for a node that a group may hold.
  bool fits(std::size_t i) const {
    const GraphNode& node = graph_.nodes[i];
    if (node.is_variable() || sources_[i] || node.outputs != 1) return false;
    if (!ops::can_be_step(*node.op, node.params)) return false;
    const std::size_t output = numbers_.begin(i);
    return base::is_floating(dtypes_[output]) && std::ranges::all_of(node.inputs, [&](Value input) {
             const std::size_t v = numbers_[input];
             return (shapes_[v] == shapes_[output] || is_number(v)) &&
                    dtypes_[v] == dtypes_[output];
           });
  }

  bool is_number(std::size_t value) const { return shapes_[value].rank() == 0; }

  std::set<std::size_t> values_read(std::size_t i) const {
    std::set<std::size_t> values;
    for (const Value input : graph_.nodes[i].inputs) values.insert(source_number(input));
    return values;
  }

  bool fits_chain(const std::set<std::size_t>& inputs) const {
    const auto numbers = std::ranges::count_if(inputs, [&](std::size_t v) { return is_number(v); });
    return inputs.size() <= ops::kChainInputsMost &&
           static_cast<std::size_t>(numbers) <= ops::kChainNumbersMost;
  }

  /// Puts a node into the group of all its readers, or into a new one.
  void place(std::size_t i) {
    if (const std::optional<std::size_t> group = group_of_readers(i)) {
      std::set<std::size_t> inputs = groups_[*group].inputs;
      inputs.erase(numbers_.begin(i));
      inputs.merge(values_read(i));
      if (fits_chain(inputs) && groups_[*group].nodes.size() < ops::kChainStepsMost &&
          !takes_memory(i, *group)) {
        groups_[*group].nodes.push_back(i);
        groups_[*group].inputs = std::move(inputs);
        group_of_[i] = *group;
        return;
      }
    }
    std::set<std::size_t> inputs = values_read(i);
    if (!fits_chain(inputs)) return;
    group_of_[i] = groups_.size();
    groups_.push_back({{i}, std::move(inputs)});
  }

  std::optional<std::size_t> group_of_readers(std::size_t i) const {
    if (heads_[i] || readers_[i].empty()) return std::nullopt;
    const std::optional<std::size_t> group = group_of_[readers_[i].front()];
    if (!group) return std::nullopt;
    const std::size_t last = groups_[*group].nodes.front();
    const auto in_group = [&](std::size_t reader) { return group_of_[reader] == group; };
    const bool alike = graph_.nodes[last].backward == graph_.nodes[i].backward &&
                       shapes_[numbers_.begin(last)] == shapes_[numbers_.begin(i)] &&
                       dtypes_[numbers_.begin(last)] == dtypes_[numbers_.begin(i)];
    return alike && std::all_of(readers_[i].begin(), readers_[i].end(), in_group) ? group
                                                                                  : std::nullopt;
  }

  /// True when more values might live at once with node `i` in the group: a value that vanishes
  /// makes room for one that lives until the group's last node instead of dying at `i`. More of
  /// them, or one that is part of a larger value, do no harm where nothing is born between the two.
  bool takes_memory(std::size_t i, std::size_t group) const {
    const std::size_t last = groups_[group].nodes.front();
    const std::set<std::size_t>& held = groups_[group].inputs;
    const std::set<std::size_t> values = values_read(i);
    const auto longer = std::ranges::count_if(values, [&](std::size_t v) {
      return !outside_[v] && !is_number(v) && last_reader_[v] < last && !held.contains(v);
    });
    const bool parts = std::ranges::any_of(values, [&](std::size_t v) { return viewed_[v]; });
    if (longer <= 1 && !parts) return false;
    for (std::size_t k = i + 1; k < last; ++k) {
      if (!graph_.nodes[k].is_variable() && !sources_[k] && group_of_[k] != group) return true;
    }
    return false;
  }

  /// The group as one node, its inputs as values of the old graph.
  GraphNode fused(const Group& group) const {
    const std::vector<std::size_t> inputs(group.inputs.begin(), group.inputs.end());
    std::map<std::size_t, std::size_t> operand_of;  // by position
    for (std::size_t k = 0; k < inputs.size(); ++k) operand_of[inputs[k]] = k;
    ops::PointwiseChain chain{inputs.size(), {}};
    const std::size_t result = numbers_.begin(group.nodes.front());
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (is_number(inputs[k]) && !is_number(result)) chain.numbers.push_back(k);
    }
    std::vector<Value> values(inputs.size());
    for (auto i = group.nodes.rbegin(); i != group.nodes.rend(); ++i) {
      const GraphNode& node = graph_.nodes[*i];
      ops::PointwiseStep step{node.op, node.params, {}};
      for (const Value input : node.inputs) {
        const std::size_t operand = operand_of[source_number(input)];
        if (operand < inputs.size()) values[operand] = source_of(input);
        step.operands.push_back(operand);
      }
      operand_of[numbers_.begin(*i)] = chain.inputs + chain.steps.size();
      chain.steps.push_back(std::move(step));
    }
    const GraphNode& last = graph_.nodes[group.nodes.front()];
    GraphNode node;
    node.name = last.name;
    node.op = &table_.at("fused_pointwise");
    node.params = ops::parse_params(*node.op, ops::to_attributes(chain)).value();
    node.inputs = std::move(values);
    node.backward = last.backward;
    return node;
  }

  Graph write() const {
    Graph result;
    std::vector<std::int64_t> mapped(graph_.nodes.size(), -1);
    const auto map = [&](Value value) {
      const Value source = source_of(value);
      return Value{mapped[node_index(source)], source.output};
    };
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (sources_[i]) continue;
      GraphNode node = graph_.nodes[i];
      if (group_of_[i]) {
        const Group& group = groups_[*group_of_[i]];
        if (group.nodes.front() != i) continue;
        if (group.nodes.size() > 1) node = fused(group);
      }
      for (Value& input : node.inputs) input = map(input);
      mapped[i] = static_cast<std::int64_t>(result.nodes.size());
      result.nodes.push_back(std::move(node));
    }
    for (const Value head : graph_.heads) result.heads.push_back(map(head));
    return result;
  }

  const ops::OpTable& table_;
  const Graph& graph_;
  const ValueNumbers numbers_;
  const ValueShapes& shapes_;
  const ValueDTypes& dtypes_;
  std::vector<std::vector<std::size_t>> readers_;  // per node
  std::vector<bool> heads_;                        // per node
  std::vector<std::optional<Value>> sources_;      // per node that falls away: what it stands for
  std::vector<std::size_t> last_reader_;           // per value; past the nodes for heads
  std::vector<bool> outside_;                      // per value: of a variable
  std::vector<bool> viewed_;  // per value: parts of it, or a whole with it, may be in one place
  std::vector<std::optional<std::size_t>> group_of_;
  std::vector<Group> groups_;
};

}  // namespace

Graph fuse_pointwise(const ops::OpTable& table, const Graph& graph, const ValueShapes& shapes,
                     const ValueDTypes& dtypes) {
  // Readers of what an operator overwrites must stay where they are.
  if (assigns(graph)) return graph;
  return PointwiseFusion(table, graph, shapes, dtypes).run();
}

}  // namespace troupe::symbol
