// SPDX-License-Identifier: Apache-2.0
// The prologue of a prediction: what follows from weights alone is computed when one of them has
// changed, and kept. Pure functions, any thread.
// Private to this folder.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "symbol/layouts.h"

namespace troupe::symbol {

/// Marks, per node, what reads nothing but the variables named `weights` and other marked nodes.
/// Random nodes, nodes without inputs and those that write a head are never marked.
std::vector<bool> prologue_nodes(const PreparedGraph& prepared,
                                 const std::set<std::string>& weights);

}  // namespace troupe::symbol
