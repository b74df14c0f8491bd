// SPDX-License-Identifier: Apache-2.0
// Fusion of neighbouring element-wise nodes, the last pass before kernels are chosen.
// Pure functions, any thread.
#pragma once

#include "symbol/graph.h"
#include "symbol/infer.h"

namespace troupe::symbol {

/// `graph` with each group of element-wise nodes (OpDef::pointwise) of one shape and one floating
/// dtype, beside which they may read 0-d numbers, as one node of fused_pointwise, which has the
/// name and the place of the group's last one. All other nodes of a group are read within it alone,
/// so nothing is computed twice and nothing that another node reads goes. What a group reads lives
/// until its last node, so a node stays apart where the graph would need more memory otherwise.
/// Nodes of the forward pass and of the backward pass stay apart, heads keep their nodes, and nodes
/// that are the identity because shapes are alike (OpDef::identity_if_alike) do not stand between
/// others. A graph that overwrites variables (OpDef::assign) stays as it is. `shapes` and `dtypes`
/// are those of the graph's values.
Graph fuse_pointwise(const ops::OpTable& table, const Graph& graph, const ValueShapes& shapes,
                     const ValueDTypes& dtypes);

}  // namespace troupe::symbol
