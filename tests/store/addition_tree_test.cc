// SPDX-License-Identifier: Apache-2.0
// The tree of additions: shape, names, frontiers of any placement.
#include "store/addition_tree.h"

#include <fmt/core.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

/// The tree in words, by a recursion of its own: "((0 1) 2)".
std::string words(const AdditionTree& tree, const TreeNode& node) {
  const auto parts = tree.children(node);
  if (!parts) return std::to_string(tree.ranks_of(node).begin);
  return fmt::format("({} {})", words(tree, parts->first), words(tree, parts->second));
}

std::vector<TreeNode> all_nodes(const AdditionTree& tree) {
  std::vector<TreeNode> nodes{tree.root()};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (const auto parts = tree.children(nodes[i])) {
      nodes.push_back(parts->first);
      nodes.push_back(parts->second);
    }
  }
  return nodes;
}

TEST_CASE("the tree splits at powers of two, groups first") {
  const auto shape = [](std::uint32_t machines, std::uint32_t devices) {
    const AdditionTree tree(machines, devices);
    return words(tree, tree.root());
  };
  CHECK(shape(1, 1) == "0");
  CHECK(shape(1, 3) == "((0 1) 2)");
  CHECK(shape(2, 2) == "((0 1) (2 3))");
  CHECK(shape(5, 1) == "(((0 1) (2 3)) 4)");
  CHECK(shape(3, 3) == "((((0 1) 2) ((3 4) 5)) ((6 7) 8))");
}

TEST_CASE("nodes of the tree name each other consistently") {
  for (std::uint32_t machines = 1; machines <= 6; ++machines) {
    for (std::uint32_t devices = 1; devices <= 5; ++devices) {
      const AdditionTree tree(machines, devices);
      const auto nodes = all_nodes(tree);
      CHECK(std::set<TreeNode>(nodes.begin(), nodes.end()).size() == nodes.size());
      CHECK(nodes.size() == 2 * tree.ranks() - 1);
      for (const TreeNode& node : nodes) {
        CHECK(tree.contains(node));
        const auto parts = tree.children(node);
        if (!parts) {
          CHECK(tree.leaf(tree.ranks_of(node).begin) == node);
          continue;
        }
        CHECK(tree.parent(parts->first) == node);
        CHECK(tree.parent(parts->second) == node);
      }
      CHECK_FALSE(tree.parent(tree.root()).has_value());
    }
  }
}

TEST_CASE("names that no tree has are refused") {
  const AdditionTree tree(2, 4);
  CHECK_FALSE(tree.contains({0, 0, 0, 4}));  // a whole group is spelled at level 1
  CHECK_FALSE(tree.contains({0, 0, 1, 3}));  // across a split
  CHECK_FALSE(tree.contains({0, 2, 0, 1}));
  CHECK_FALSE(tree.contains({1, 0, 0, 3}));
  CHECK_FALSE(tree.contains({1, 1, 0, 1}));
  CHECK_FALSE(tree.contains({2, 0, 0, 1}));
  CHECK_FALSE(tree.contains({1, 0, 1, 1}));
}

TEST_CASE("a frontier is the fewest nodes that cover a placement") {
  const AdditionTree tree(2, 2);
  const auto frontier = [&](std::vector<std::uint32_t> ranks) { return tree.frontier(ranks); };
  CHECK(frontier({0, 1, 2, 3}) == std::vector<TreeNode>{tree.root()});
  CHECK(frontier({0, 1, 2}) == std::vector<TreeNode>{{1, 0, 0, 1}, {0, 1, 0, 1}});
  CHECK(frontier({3}) == std::vector<TreeNode>{{0, 1, 1, 2}});
  CHECK(frontier({1, 2}) == std::vector<TreeNode>{{0, 0, 1, 2}, {0, 1, 0, 1}});
  CHECK(frontier({}).empty());

  CHECK(
      rc::check("frontiers cover exactly their ranks, and no two of their nodes are siblings", [] {
        const AdditionTree any(*rc::gen::inRange(1U, 7U), *rc::gen::inRange(1U, 6U));
        std::vector<std::uint32_t> ranks;
        for (std::uint32_t rank = 0; rank < any.ranks(); ++rank) {
          if (*rc::gen::arbitrary<bool>()) ranks.push_back(rank);
        }
        std::vector<std::uint32_t> covered;
        const auto nodes = any.frontier(ranks);
        for (const TreeNode& node : nodes) {
          const RankRange range = any.ranks_of(node);
          for (std::uint32_t rank = range.begin; rank < range.end; ++rank) covered.push_back(rank);
          const auto above = any.parent(node);
          const bool larger =
              above && std::any_of(nodes.begin(), nodes.end(), [&](const auto& other) {
                return other != node && any.parent(other) == above;
              });
          RC_ASSERT_FALSE(larger);
        }
        RC_ASSERT(covered == ranks);
      }));
}

}  // namespace
}  // namespace troupe::store
