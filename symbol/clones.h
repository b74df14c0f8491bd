// SPDX-License-Identifier: Apache-2.0
// Clones of nodes of a training graph: the backward pass reads them instead of values that the
// forward pass would have to keep. A draft is such a graph as far as planning needs it, so that
// many can be tried; only the one that is taken gets kernels.
// Private to this folder.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "symbol/layouts.h"
#include "symbol/plan_memory.h"

namespace troupe::symbol {

/// A graph with clones.
struct Draft {
  Graph graph;
  std::vector<bool> clone;             ///< per node
  std::vector<std::size_t> nodes;      ///< per node: the one of the prepared graph that it clones
  std::vector<std::size_t> values;     ///< per value: the same
  std::vector<const NodePlan*> plans;  ///< per node; those of variables say nothing
  double seconds = 0;                  ///< of all clones, by the kernels' rules

  /// True for nodes of the backward pass proper, which need not read what the forward pass keeps.
  bool is_late(std::size_t node) const { return graph.nodes[node].backward && !clone[node]; }
};

/// Makes drafts of one prepared graph, and outlives them.
class Cloner {
 public:
  Cloner(const ops::OpTable& table, PreparedGraph prepared);
  Cloner(const Cloner&) = delete;
  Cloner& operator=(const Cloner&) = delete;

  /// The graph itself. As in every draft, a node whose hidden outputs nobody reads leaves them out
  /// (OpDef::keeps_hidden).
  Draft original() const;
  /// `from` with clones of all nodes without `keep` that late nodes need, right before the first
  /// that does. A clone reads kept values and other clones.
  Draft clone(const Draft& from, const std::vector<bool>& keep) const;
  /// How many outputs, the first ones, a clone of the node has; 0: it cannot be cloned.
  std::size_t outputs(const Draft& draft, std::size_t node) const;
  /// What a clone of the node takes.
  const NodePlan& plan(const Draft& draft, std::size_t node) const;
  /// The node's clone, which reads what `draft` has.
  GraphNode call(const Draft& draft, std::size_t node) const;

  /// What planning `draft` needs.
  PlanRequest request(const Draft& draft, MemoryMode mode) const;
  /// The prepared graph with the clones of `draft`. The last call: it takes kernels away.
  base::Result<PreparedGraph> finish(const Draft& draft);

 private:
  /// Another call that gives the first outputs of a node.
  struct Form {
    GraphNode node;
    NodePlan plan;
  };
  /// OpDef::recomputation's. Nothing where no kernel gives the same bits.
  std::optional<Form> find_form(const ops::OpTable& table, std::size_t node) const;
  /// The node without its hidden outputs. Nothing where it has none, or cannot leave them out.
  std::optional<Form> find_lean(std::size_t node) const;
  void leave_out_idle(Draft& draft) const;
  /// `node` of the prepared graph with the call of `op` and `attributes`: it has as many outputs as
  /// that, described as the first ones of the node. Nothing where the node's maker declines it.
  std::optional<Form> form_of(std::size_t node, GraphNode call, const ops::OpDef& op,
                              const ops::Attributes& attributes) const;

  PreparedGraph prepared_;
  bool assigns_;  // what a clone reads may not be what its node has read
  PlanRequest base_;
  std::vector<std::optional<Form>> forms_;  // per node
  std::vector<std::optional<Form>> lean_;   // the same
};

/// Whether the graph has hidden outputs that a draft leaves out.
bool has_idle_outputs(const Graph& graph);

}  // namespace troupe::symbol
