// SPDX-License-Identifier: Apache-2.0
// Passes: pure functions from graph to graph that keep what the heads compute. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "symbol/graph.h"

namespace troupe::symbol {

/// True when an operator of the graph overwrites one of its inputs (OpDef::assign): then the order
/// of nodes means something, and those that read a variable must not move.
bool assigns(const Graph& graph);
/// Only what the heads need. Order and names are kept.
Graph prune(const Graph& graph);
/// One node for equal calls on equal values (operators that draw or assign are never merged).
Graph eliminate_common_subexpressions(const Graph& graph);
/// The graph for prediction: operators take their predict form (dropout disappears, batch_norm
/// reads its states). Pruned.
base::Result<Graph> freeze(const ops::OpTable& table, const Graph& graph);

/// Which heads of a graph are gradients, so that the backward pass alone writes them.
struct GradientHeads {
  std::size_t begin = 0, end = 0;  ///< heads [begin, end) are gradients
  /// By head: the name of a new variable that the gradient is added to.
  std::map<std::size_t, std::string> accumulators = {};
};

/// Gives every head memory of its own: a head that is a variable, that was a head before, or a
/// gradient that the forward pass computes becomes a `copy`; one with an accumulator becomes
/// accumulator + head. A new node comes right behind the value it takes, but behind all others
/// where it runs in the backward pass and its value in the forward pass.
Graph separate_heads(const ops::OpTable& table, const Graph& graph,
                     const GradientHeads& gradients = {});

}  // namespace troupe::symbol
