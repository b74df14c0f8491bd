// SPDX-License-Identifier: Apache-2.0
// SliceSum: the partial sums of one slice and one step on their way up the tree of additions. It
// holds handles and says which two to add next, always left + right of the tree, whatever came
// first; the bytes are added elsewhere. Pure; one owner, one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "store/addition_tree.h"

namespace troupe::store {

/// A complete sum of one node. No data: its ranks had no samples, and adding it changes nothing.
struct SumPart {
  base::Buffer data;
  double count = 0.0;  ///< sum of the loss's weights behind it
  bool fresh = false;  ///< made by an addition here, so no giver waits for the bytes
};

/// Add left + right; the result is the sum of `node`.
struct Addition {
  std::uint64_t id = 0;  ///< names it to added(); never given twice by one SliceSum
  TreeNode node;
  base::Buffer left;
  base::Buffer right;
  bool left_fresh = false, right_fresh = false;  ///< as SumPart::fresh
};

/// Takes sums of nodes in any order, each at most once; gives additions as soon as both siblings
/// are there. A node replaces held nodes below it (a placement may have changed: the same bits).
class SliceSum {
 public:
  explicit SliceSum(const AdditionTree& tree) : tree_(tree) {}

  /// Takes the sum of a node of the tree. False: it is held already, alone or in a larger node.
  bool offer(const TreeNode& node, base::Buffer data, double count);
  /// True when the sum of a node is held, alone or in a larger node.
  bool has(const TreeNode& node) const;
  /// The next addition to run, each once.
  std::optional<Addition> next_addition();
  /// The result of an addition that next_addition() gave; ignored when a larger node came since.
  void added(std::uint64_t id, base::Buffer sum);

  /// The complete sum of a node that no larger one has swallowed; null otherwise.
  const SumPart* part(const TreeNode& node) const;
  const SumPart* total() const { return part(tree_.root()); }
  /// Ranks in no held or running sum, for messages about who is missing.
  std::vector<std::uint32_t> missing() const;
  /// Empty again, for the next step. CHECKs that no addition is running.
  void clear();

 private:
  bool held(const TreeNode& node) const;
  void drop_below(const TreeNode& node);
  void settle(TreeNode node);

  AdditionTree tree_;
  std::map<TreeNode, SumPart> parts_;
  struct Running {
    std::uint64_t id = 0;
    double count = 0.0;
  };
  std::map<TreeNode, Running> running_;  // by the node that will come of it
  std::deque<Addition> ready_;
  std::uint64_t next_id_ = 1;
};

}  // namespace troupe::store
