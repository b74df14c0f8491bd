// SPDX-License-Identifier: Apache-2.0
// The search behind choose_layouts: which kernel takes each node, so that kernels and the reorders
// between them take least by the kernels' rules. A walk in topological order takes the cheapest
// offer for each node as far as is known; sweeps then exchange single nodes while that pays.
// Private to this folder.
#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbol/kernel_choices.h"
#include "symbol/layouts.h"

namespace troupe::symbol {

/// For one graph, whose shapes and dtypes are complete. Any thread that may lead the team.
class LayoutSearch {
 public:
  LayoutSearch(const ops::OpTable& table, const Graph& graph, const ValueShapes& shapes,
               const ValueDTypes& dtypes, const PrepareOptions& options, int team);

  /// One plan per node. An error names the node that no kernel takes.
  base::Result<std::vector<NodePlan>> run();

  /// The node gives its first input as it is and falls away. (A head needs memory of its own.)
  bool falls_away(std::size_t node) const { return aliases_[numbers_.begin(node)].has_value(); }
  bool is_head(std::size_t value) const { return heads_[value]; }
  /// A call of `op` without tensors.
  ops::OpCall call_of(const ops::OpDef& op, const ops::Params& params) const;

 private:
  /// What was offered for a call.
  struct Asked {
    base::Status status;
    std::vector<ops::Offer> offers;
    std::vector<ops::Decline> declines;
    std::string signature;
    const KernelChoice* choice = nullptr;  ///< null: by the rule
  };
  /// A node that reads a value as its input `input`.
  struct Reader {
    std::size_t node;
    std::size_t input;
    friend auto operator<=>(const Reader&, const Reader&) = default;
  };
  /// A layout that some readers of a value want.
  struct Want {
    base::Layout layout;
    std::set<Reader> readers;
  };
  struct Hash {
    std::size_t operator()(const ops::OpCall& call) const { return call.hash(); }
  };

  void find_aliases();
  const Asked& ask(const ops::OpCall& call);
  void heed_choices(const ops::OpCall& call, Asked& asked) const;
  /// Ok: the chosen kernel takes the call; else an error says why it does not.
  base::Status check_choice(const ops::OpCall& call, const Asked& asked) const;
  base::Status choose(std::size_t node, bool& changed);
  ops::OpCall call_of_node(std::size_t node, bool free_inputs) const;
  /// True where `offer` would bring a value out of a layout that is not dense.
  bool leaves_layout(std::size_t node, const ops::Offer& offer) const;
  void take(std::size_t node, const ops::Offer& offer);
  /// A reader of the value has wanted the layout `before` (null: none) and wants another one now.
  void change_want(std::size_t value, Reader reader, const base::Layout* before,
                   const base::Layout& now);
  /// Of all reorders of the values that the node reads and writes.
  double reorder_seconds_around(std::size_t node);
  double reorder_seconds(std::size_t value);
  std::size_t source_of(Value value) const {
    const std::size_t v = numbers_[value];
    return aliases_[v] ? *aliases_[v] : v;
  }

  const ops::OpTable& table_;
  const Graph& graph_;
  const ValueNumbers numbers_;
  const ValueShapes& shapes_;
  const ValueDTypes& dtypes_;
  const PrepareOptions& options_;
  const int team_;
  std::vector<bool> heads_;                          // per value
  std::vector<bool> free_to_reorder_;                // per value: done once, not at each run
  std::vector<std::optional<std::size_t>> aliases_;  // per value: the one that it is
  /// Per value that is no alias: what its readers want by their plans. Each layout is there once,
  /// and they lie in the order of their first readers.
  std::vector<std::vector<Want>> wants_;
  std::vector<base::Layout> layouts_;  // per value that is no alias
  std::vector<NodePlan> plans_;
  std::unordered_map<ops::OpCall, Asked, Hash> asked_;
};

}  // namespace troupe::symbol
