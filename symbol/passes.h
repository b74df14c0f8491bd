// SPDX-License-Identifier: Apache-2.0
// Passes: pure functions from graph to graph that keep what the heads compute. Any thread.
#pragma once

#include "symbol/graph.h"

namespace troupe::symbol {

/// Only what the heads need. Order and names are kept.
Graph prune(const Graph& graph);
/// One node for equal calls on equal values (operators that draw or assign are never merged).
Graph eliminate_common_subexpressions(const Graph& graph);
/// The graph for prediction: operators take their predict form (dropout disappears, batch_norm
/// reads its states). Pruned.
base::Result<Graph> freeze(const ops::OpTable& table, const Graph& graph);

}  // namespace troupe::symbol
