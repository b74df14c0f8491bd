// SPDX-License-Identifier: Apache-2.0
// Symbolic differentiation. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "symbol/graph.h"
#include "symbol/symbol.h"

namespace troupe::symbol {

/// The variable that stands for the gradient of an output that is no loss.
struct HeadGradient {
  std::string name;
  std::size_t head = 0;  ///< index among the heads of the given graph
  bool leads = false;    ///< to a wanted argument; else its value makes no difference
};

/// Result of differentiating a flat graph: forward nodes keep their indices, then come the nodes of
/// the backward pass (GraphNode::backward) in the order in which they should run.
struct Differentiated {
  Graph graph;  ///< heads: those of the given graph, then one per `wrt`
  std::vector<HeadGradient> head_gradients;
};

/// Appends the backward pass for the arguments `wrt`. The gradient of output `o` is the variable
/// "<o>_head_gradient" (the same value as an output once more: "<o>_head_gradient_2"), or ones for
/// operators marked is_loss. A value used k times gets its k contributions in reverse topological
/// order of its users, added by one add_n. Errors name arguments that are not reached or, by
/// `dtypes`, not floating, and what is on the way to them without a gradient: an operator, a hidden
/// output, a value of an integer dtype. Operators marked cuts_gradient end the way.
/// `loss_scale`, if any, names a new variable, a vector whose first value the gradients that the
/// losses give are multiplied with; invalid_argument: a loss that is no output alone.
base::Result<Differentiated> differentiate(const ops::OpTable& table, const Graph& graph,
                                           std::span<const std::string> wrt,
                                           const std::vector<base::DType>& dtypes,
                                           std::string_view loss_scale = {});

/// Those of the arguments `wrt` on which no output depends in a differentiable way, such as those
/// behind stop_gradient: the gradient of each is zero. Errors as of differentiate().
base::Result<std::vector<std::string>> without_gradient(const ops::OpTable& table,
                                                        const Graph& graph,
                                                        std::span<const std::string> wrt,
                                                        const std::vector<base::DType>& dtypes);

/// The gradients of `symbol` with respect to `wrt`, as a symbol with one output each. Arguments
/// that nothing decides count as f32.
base::Result<Symbol> gradient(const ops::OpTable& table, const Symbol& symbol,
                              std::span<const std::string> wrt);

}  // namespace troupe::symbol
