// SPDX-License-Identifier: Apache-2.0
// Passes: pure functions from graph to graph that keep what the heads compute. Any thread.
#pragma once

#include <map>
#include <string>

#include "symbol/graph.h"

namespace troupe::symbol {

/// Only what the heads need. Order and names are kept.
Graph prune(const Graph& graph);
/// One node for equal calls on equal values (operators that draw or assign are never merged).
Graph eliminate_common_subexpressions(const Graph& graph);
/// The graph for prediction: operators take their predict form (dropout disappears, batch_norm
/// reads its states). Pruned.
base::Result<Graph> freeze(const ops::OpTable& table, const Graph& graph);

/// Gives every head memory of its own: a head that is a variable, or was a head before, becomes a
/// `copy`; head i with an accumulator becomes accumulator + head, where the accumulator is a new
/// variable of that name. New nodes come right behind the value they take.
Graph separate_heads(const ops::OpTable& table, const Graph& graph,
                     const std::map<std::size_t, std::string>& accumulators);

}  // namespace troupe::symbol
