// SPDX-License-Identifier: Apache-2.0
// Auxiliary states: who moves them, by how much, towards what.
#include "symbol/states.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace troupe::symbol {

namespace {

/// 1 where `node` moves nothing.
double momentum_of(const GraphNode& node, const ops::AuxiliaryState& state) {
  const bool frozen = !state.frozen.empty() && node.params.boolean(state.frozen);
  return frozen ? 1.0 : node.params.real(state.momentum);
}

/// Another move behind those that are there, whose weights shrink by its momentum. Of nodes that
/// move nothing one is a part where no other does.
void move_after(StateUpdate& update, Value value, double momentum) {
  if (momentum == 1 && !update.parts.empty()) return;
  if (update.momentum == 1) update.parts.clear();
  for (auto& [part, weight] : update.parts) weight *= momentum;
  update.parts.emplace_back(value, 1 - momentum);
  update.momentum *= momentum;
}

/// Weights as shares of the whole move. A state that never moves keeps its first part.
void normalise(StateUpdate& update) {
  if (update.parts.size() == 1 || update.momentum == 1) {
    update.parts.resize(1);
    update.parts.front().second = 1;
    return;
  }
  for (auto& [part, weight] : update.parts) weight /= 1 - update.momentum;
}

}  // namespace

std::vector<StateUpdate> state_updates(const Graph& graph) {
  std::vector<StateUpdate> updates;
  std::unordered_map<std::string_view, std::size_t> positions;  // by the state's name
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const GraphNode& node = graph.nodes[i];
    if (node.is_variable()) continue;
    for (auto state = node.op->auxiliary.rbegin(); state != node.op->auxiliary.rend(); ++state) {
      const GraphNode& variable = graph.node(node.input(state->input));
      if (!variable.is_variable()) continue;
      const auto [it, added] = positions.try_emplace(variable.name, updates.size());
      if (added) updates.push_back({variable.name, 1.0, {}});
      move_after(updates[it->second], {static_cast<std::int64_t>(i), state->output},
                 momentum_of(node, *state));
    }
  }
  std::reverse(updates.begin(), updates.end());
  for (StateUpdate& update : updates) normalise(update);
  return updates;
}

Value batch_value(Builder& builder, const StateUpdate& update) {
  if (update.parts.size() == 1) return update.parts.front().first;
  builder.set_prefix(update.state + "_batch");
  std::vector<Value> shares;
  for (const auto& [value, weight] : update.parts) {
    shares.push_back(
        builder.add1("multiply_scalar", {value}, {{"scalar", ops::to_attribute(weight)}}));
  }
  return builder.add_sum(std::move(shares));
}

}  // namespace troupe::symbol
