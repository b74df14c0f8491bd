// SPDX-License-Identifier: Apache-2.0
// Symbolic differentiation. Pure functions, any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "symbol/graph.h"
#include "symbol/symbol.h"

namespace troupe::symbol {

/// Result of differentiating a flat graph: forward nodes keep their indices, then come the nodes of
/// the backward pass (GraphNode::backward) in the order in which they should run.
struct Differentiated {
  Graph graph;                              ///< heads: those of the given graph, then one per `wrt`
  std::vector<std::string> head_gradients;  ///< variables made for heads that are no losses
};

/// Appends the backward pass for the arguments `wrt`. The gradient of output `o` is the variable
/// "<o>_head_gradient", or ones for operators marked is_loss. A value used k times gets its k
/// contributions in reverse topological order of its users, added by one add_n. Errors name
/// arguments that are not reached or not floating (by `dtypes`, where given) and operators without
/// gradient.
base::Result<Differentiated> differentiate(const ops::OpTable& table, const Graph& graph,
                                           std::span<const std::string> wrt,
                                           const std::vector<base::DType>* dtypes = nullptr);

/// Those of the arguments `wrt` on which no output depends in a differentiable way, such as those
/// behind stop_gradient: the gradient of each is zero. Errors as of differentiate().
base::Result<std::vector<std::string>> without_gradient(const ops::OpTable& table,
                                                        const Graph& graph,
                                                        std::span<const std::string> wrt);

/// The gradients of `symbol` with respect to `wrt`, as a symbol with one output each.
base::Result<Symbol> gradient(const ops::OpTable& table, const Symbol& symbol,
                              std::span<const std::string> wrt);

}  // namespace troupe::symbol
