// SPDX-License-Identifier: Apache-2.0
// AdditionTree: the order in which a job's virtual ranks are added up. It belongs to the job, not
// to a placement: groups of `devices` ranks, a balanced binary tree inside each group, then one
// over the groups. Immutable value; pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schemas/messages.h"

namespace troupe::store {

using schemas::TreeNode;

/// Ranks [begin, end).
struct RankRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

/// The tree over machines x devices virtual ranks. A range of n > 1 members splits at the largest
/// power of two below n, so a job of 2^k ranks is added pairwise and any job in log2(V) + 1 levels.
/// A whole group is the level-1 leaf [group, group + 1); level 0 names true parts of a group only.
class AdditionTree {
 public:
  /// CHECKs that both are at least 1.
  AdditionTree(std::uint32_t machines, std::uint32_t devices);

  std::uint32_t ranks() const { return groups_ * devices_; }

  TreeNode root() const { return group_node(0, groups_); }
  /// The node of one rank; CHECKs that the rank exists.
  TreeNode leaf(std::uint32_t rank) const;
  /// True when the tree has this node, in its canonical spelling. For names from the wire.
  bool contains(const TreeNode& node) const;
  /// The ranks that a node sums.
  RankRange ranks_of(const TreeNode& node) const;

  // These take nodes of the tree.

  /// Left and right part; nothing for a single rank.
  std::optional<std::pair<TreeNode, TreeNode>> children(const TreeNode& node) const;
  /// Nothing for the root.
  std::optional<TreeNode> parent(const TreeNode& node) const;
  /// True when `inner` is `outer` or below it.
  bool covers(const TreeNode& outer, const TreeNode& inner) const;

  /// The largest nodes whose ranks are all among `ranks` (sorted, distinct), in rank order: what a
  /// machine that holds these ranks can sum without another machine.
  std::vector<TreeNode> frontier(std::span<const std::uint32_t> ranks) const;

 private:
  static TreeNode group_node(std::uint32_t begin, std::uint32_t end) { return {1, 0, begin, end}; }
  TreeNode member_node(std::uint32_t group, std::uint32_t begin, std::uint32_t end) const;

  std::uint32_t groups_;
  std::uint32_t devices_;
};

/// "ranks 2-3" or "rank 2": a node as people read it.
std::string node_text(const AdditionTree& tree, const TreeNode& node);

}  // namespace troupe::store
