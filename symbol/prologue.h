// SPDX-License-Identifier: Apache-2.0
// The prologue of a prediction: weights in the form that kernels want (another layout, with a
// normalisation folded in) are made when a weight has changed, and kept.
// Pure functions, any thread.
// Private to this folder.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "symbol/graph.h"

namespace troupe::symbol {

/// Marks, per node, calls that prepare weights (OpDef::prepares_weights) and follow from the
/// variables named `weights` alone. One that writes a head is not marked, and so is none behind it;
/// where an operator assigns (passes.h), none at all.
std::vector<bool> prologue_nodes(const Graph& graph, const std::set<std::string>& weights);

}  // namespace troupe::symbol
