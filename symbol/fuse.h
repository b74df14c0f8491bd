// SPDX-License-Identifier: Apache-2.0
// Fusion: operators move into those before them, and sums of gradients into those behind, which
// saves their passes over memory.
// Pure functions, any thread.
// Private to this folder.
#pragma once

#include "symbol/graph.h"
#include "symbol/infer.h"

namespace troupe::symbol {

/// `graph`, before differentiation, with every sum of two and every relu in the epilogue of the
/// node before it (OpDef::epilogue), where nothing else reads that node's first output. A node with
/// an epilogue keeps its name and stands where the last node that it took in stood. Heads keep
/// their nodes. Of two nodes that could take a sum in, the later one does. `narrow`: values of the
/// graph have 16 bits, in which hidden outputs (a batch's statistics) are rounded, so operators
/// whose output follows from them take nothing in. A graph with operators that assign stays as it
/// is: what moves would read what they have written.
Graph fuse_epilogues(const Graph& graph, bool narrow);

/// A differentiated graph in which the gradient of a relu adds what reaches its output, where only
/// it reads the sum and a kernel adds so many. Same bits: the order of the additions stays.
Graph fuse_gradient_sums(const Graph& graph);

/// A frozen graph in which the weights and the bias of a convolution do what a batch normalisation
/// behind it did, with that one's epilogue; `batch_norm_fold` makes them from the old ones. Where
/// something else reads the convolution's output, or its weights or statistics are no variables of
/// one dtype, nothing changes. `dtypes`: of the graph's values.
Graph fold_batch_norms(const ops::OpTable& table, const Graph& graph, const ValueDTypes& dtypes);

}  // namespace troupe::symbol
