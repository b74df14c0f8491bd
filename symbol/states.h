// SPDX-License-Identifier: Apache-2.0
// How training moves auxiliary states (batch_norm's running statistics) from step to step. Pure
// functions, any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "symbol/graph.h"

namespace troupe::symbol {

/// A step makes state = momentum * state + (1 - momentum) * batch value, where the batch value is
/// the sum of weight * value over `parts`. A state of one node has one part, of weight 1. Several
/// nodes that share a state move it one after the other, as in MXNet the last one of the graph
/// first, because its backward pass is what moves states there.
struct StateUpdate {
  std::string state;  ///< the variable's name
  double momentum = 0;
  std::vector<std::pair<Value, double>> parts;
};

/// One per auxiliary state that is a variable, in the order of their last users.
std::vector<StateUpdate> state_updates(const Graph& graph);

/// The batch value of `update`: its only part, or a new node of the graph behind `builder`.
Value batch_value(Builder& builder, const StateUpdate& update);

}  // namespace troupe::symbol
