// SPDX-License-Identifier: Apache-2.0
// The tree is never stored: every node follows from the two sizes by descending from the root. So a
// name from the wire can be checked, and no table must agree between machines.
#include "store/addition_tree.h"

#include <fmt/core.h>

#include <bit>

#include "base/check.h"

namespace troupe::store {
namespace {

/// Size of the left part of n > 1 members: the largest power of two below n.
std::uint32_t left_size(std::uint32_t n) {
  return std::bit_floor(n - 1);
}

}  // namespace

AdditionTree::AdditionTree(std::uint32_t machines, std::uint32_t devices)
    : groups_(machines), devices_(devices) {
  TROUPE_CHECK(machines >= 1 && devices >= 1, "a job has at least one rank");
}

TreeNode AdditionTree::member_node(std::uint32_t group, std::uint32_t begin,
                                   std::uint32_t end) const {
  if (begin == 0 && end == devices_) return group_node(group, group + 1);
  return {0, group, begin, end};
}

TreeNode AdditionTree::leaf(std::uint32_t rank) const {
  TROUPE_CHECK(rank < ranks(), fmt::format("rank {} of {} does not exist", rank, ranks()));
  return member_node(rank / devices_, rank % devices_, rank % devices_ + 1);
}

RankRange AdditionTree::ranks_of(const TreeNode& node) const {
  if (node.level == 1) return {node.begin * devices_, node.end * devices_};
  return {node.group * devices_ + node.begin, node.group * devices_ + node.end};
}

bool AdditionTree::contains(const TreeNode& node) const {
  const bool in_range = node.level == 1
                            ? node.group == 0 && node.begin < node.end && node.end <= groups_
                            : node.level == 0 && node.group < groups_ && node.begin < node.end &&
                                  node.end <= devices_;
  if (!in_range) return false;
  const RankRange wanted = ranks_of(node);
  TreeNode at = root();
  while (at != node) {
    const auto parts = children(at);
    if (!parts) return false;
    const RankRange left = ranks_of(parts->first);
    if (wanted.begin < left.end && wanted.end > left.end) return false;
    at = wanted.end <= left.end ? parts->first : parts->second;
  }
  return true;
}

std::optional<std::pair<TreeNode, TreeNode>> AdditionTree::children(const TreeNode& node) const {
  const std::uint32_t size = node.end - node.begin;
  if (size > 1) {
    const std::uint32_t middle = node.begin + left_size(size);
    if (node.level == 1) {
      return std::pair{group_node(node.begin, middle), group_node(middle, node.end)};
    }
    return std::pair{member_node(node.group, node.begin, middle),
                     member_node(node.group, middle, node.end)};
  }
  if (node.level == 0 || devices_ == 1) return std::nullopt;
  const std::uint32_t middle = left_size(devices_);
  return std::pair{member_node(node.begin, 0, middle), member_node(node.begin, middle, devices_)};
}

std::optional<TreeNode> AdditionTree::parent(const TreeNode& node) const {
  TreeNode at = root();
  if (at == node) return std::nullopt;
  while (true) {
    const auto parts = children(at);
    TROUPE_CHECK(parts.has_value(), "not a node of the tree");
    if (parts->first == node || parts->second == node) return at;
    at = covers(parts->first, node) ? parts->first : parts->second;
  }
}

bool AdditionTree::covers(const TreeNode& outer, const TreeNode& inner) const {
  const RankRange a = ranks_of(outer);
  const RankRange b = ranks_of(inner);
  return a.begin <= b.begin && b.end <= a.end;
}

// Descends from the root, left before right, so in rank order. `next` is the first rank that no
// node of the result covers yet. A node that begins there and whose last rank stands at the right
// distance in the sorted list is complete, and the largest such one, since its parent was looked at
// before and was not.
std::vector<TreeNode> AdditionTree::frontier(std::span<const std::uint32_t> ranks) const {
  std::vector<TreeNode> result;
  std::vector<TreeNode> open{root()};
  std::size_t next = 0;  // first rank not yet covered
  while (!open.empty() && next < ranks.size()) {
    const TreeNode node = open.back();
    open.pop_back();
    const RankRange range = ranks_of(node);
    if (ranks[next] >= range.end) continue;
    const std::size_t last = next + range.size() - 1;
    if (ranks[next] == range.begin && last < ranks.size() && ranks[last] == range.end - 1) {
      result.push_back(node);
      next += range.size();
    } else if (const auto parts = children(node)) {
      open.push_back(parts->second);
      open.push_back(parts->first);
    }
  }
  return result;
}

std::string node_text(const AdditionTree& tree, const TreeNode& node) {
  const RankRange range = tree.ranks_of(node);
  if (range.size() == 1) return fmt::format("rank {}", range.begin);
  return fmt::format("ranks {}-{}", range.begin, range.end - 1);
}

}  // namespace troupe::store
