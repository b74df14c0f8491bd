// SPDX-License-Identifier: Apache-2.0
// Whether arrays that are bound together may lie where they do. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "symbol/executor.h"
#include "symbol/graph.h"

namespace troupe::symbol {

/// invalid_argument naming two arrays of `bindings`, those of a symbol with this graph, that share
/// bytes although one of them is written: a gradient or an output. Allowed are an output that is an
/// argument whose memory the node is marked to overwrite (OpDef::assign), and outputs of one value.
/// `names`: the symbol's outputs.
base::Status check_overlaps(const Graph& graph, const std::vector<std::string>& names,
                            const Bindings& bindings);

}  // namespace troupe::symbol
