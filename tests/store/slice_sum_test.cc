// SPDX-License-Identifier: Apache-2.0
// Partial sums: the order of addition never depends on the order of arrival.
#include "store/slice_sum.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

base::Buffer number(double value) {
  base::Buffer buffer = base::make_host_buffer(sizeof(double));
  buffer.as<double>()[0] = value;
  return buffer;
}

/// Values whose sum depends on the order.
double value_of(std::uint32_t rank) {
  return (rank % 2 == 0 ? 1e16 : -1e16) / (1 + rank / 2) + rank * 0.7;
}

double tree_sum(const AdditionTree& tree, const TreeNode& node) {
  const auto parts = tree.children(node);
  if (!parts) return value_of(tree.ranks_of(node).begin);
  return tree_sum(tree, parts->first) + tree_sum(tree, parts->second);
}

TEST_CASE("any order of arrival gives the tree's bits") {
  const AdditionTree tree(3, 3);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    SliceSum sum(tree);
    std::vector<std::uint32_t> order(tree.ranks());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Addition> running;
    while (sum.total() == nullptr) {
      if (!order.empty() && (running.empty() || random() % 2 == 0)) {
        CHECK(sum.offer(tree.leaf(order.back()), number(value_of(order.back())), 2.0));
        CHECK_FALSE(sum.offer(tree.leaf(order.back()), number(0), 2.0));
        order.pop_back();
      } else {
        const std::size_t pick = random() % running.size();
        const Addition& add = running[pick];
        sum.added(add.id, number(add.left.as<double>()[0] + add.right.as<double>()[0]));
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(pick));
      }
      while (auto add = sum.next_addition()) running.push_back(*add);
    }
    CHECK(sum.total()->data.as<double>()[0] == tree_sum(tree, tree.root()));
    CHECK(sum.total()->count == 18.0);
    CHECK(sum.total()->fresh);
  }
}

TEST_CASE("nothing passes a sum through unchanged") {
  const AdditionTree tree(1, 3);
  SliceSum sum(tree);
  const base::Buffer only = number(-0.0);
  CHECK(sum.offer(tree.leaf(0), {}, 0.0));
  CHECK(sum.offer(tree.leaf(2), {}, 0.0));
  CHECK(sum.missing() == std::vector<std::uint32_t>{1});
  CHECK(sum.offer(tree.leaf(1), only, 4.0));
  REQUIRE(sum.total() != nullptr);
  CHECK(sum.total()->data.same_block(only));
  CHECK(sum.total()->count == 4.0);
  CHECK_FALSE(sum.total()->fresh);
  CHECK_FALSE(sum.next_addition().has_value());
}

TEST_CASE("a larger node replaces what is below it, running additions included") {
  const AdditionTree tree(2, 2);
  SliceSum sum(tree);
  CHECK(sum.offer(tree.leaf(0), number(1), 1));
  CHECK(sum.offer(tree.leaf(1), number(2), 1));
  const auto stale = sum.next_addition();
  REQUIRE(stale.has_value());
  CHECK(sum.offer(tree.leaf(2), number(3), 1));
  CHECK(sum.offer(tree.root(), number(10), 4));
  CHECK_FALSE(sum.offer(tree.leaf(3), number(4), 1));
  sum.added(stale->id, number(3));
  REQUIRE(sum.total() != nullptr);
  CHECK(sum.total()->data.as<double>()[0] == 10);
  sum.clear();
  CHECK(sum.total() == nullptr);
  CHECK(sum.missing().size() == 4);
}

}  // namespace
}  // namespace troupe::store
