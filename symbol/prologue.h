// SPDX-License-Identifier: Apache-2.0
// The prologue of a prediction: weights in the layouts that kernels want are made when a weight has
// changed, and kept. Pure functions, any thread.
// Private to this folder.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "symbol/layouts.h"

namespace troupe::symbol {

/// Marks, per node, reorders of the variables named `weights`. One that writes a head is not
/// marked.
std::vector<bool> prologue_nodes(const PreparedGraph& prepared,
                                 const std::set<std::string>& weights);

}  // namespace troupe::symbol
