// SPDX-License-Identifier: Apache-2.0
// Climbing the tree: every sum that arrives looks for its sibling, and its parent's sum again.
#include "store/slice_sum.h"

#include <algorithm>

#include "base/check.h"

namespace troupe::store {

// At any time the nodes in parts_ and running_ have no rank in common: they are the frontier of
// what has come, the largest nodes whose ranks are all here. Three things keep it so. offer()
// refuses a node that is part of a held one, and takes out held nodes below a larger one: after a
// change of the placement somebody else may have summed them along the same tree, so to the same
// bits. settle() joins two siblings as soon as both are there. added() knows an addition by its id,
// so the end of one that a larger node has made needless changes nothing.

bool SliceSum::has(const TreeNode& node) const {
  for (std::optional<TreeNode> at = node; at; at = tree_.parent(*at)) {
    if (held(*at)) return true;
  }
  return false;
}

bool SliceSum::offer(const TreeNode& node, base::Buffer data, double count) {
  if (has(node)) return false;
  drop_below(node);
  parts_[node] = {std::move(data), count, false};
  settle(node);
  return true;
}

std::optional<Addition> SliceSum::next_addition() {
  if (ready_.empty()) return std::nullopt;
  Addition addition = std::move(ready_.front());
  ready_.pop_front();
  TROUPE_CHECK(running_.count(addition.node) != 0, "an addition is given out that nobody awaits");
  return addition;
}

void SliceSum::added(std::uint64_t id, base::Buffer sum) {
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [&](const auto& entry) { return entry.second.id == id; });
  if (running == running_.end()) return;  // a larger node has come meanwhile
  const TreeNode node = running->first;
  TROUPE_CHECK(parts_.count(node) == 0, "a sum is there before its addition has ended");
  parts_[node] = {std::move(sum), running->second.count, true};
  running_.erase(running);
  settle(node);
}

const SumPart* SliceSum::part(const TreeNode& node) const {
  const auto found = parts_.find(node);
  return found == parts_.end() ? nullptr : &found->second;
}

std::vector<std::uint32_t> SliceSum::missing() const {
  std::vector<std::uint32_t> ranks;
  const auto covered = [this](const auto& nodes, std::uint32_t rank) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& entry) {
      const RankRange range = tree_.ranks_of(entry.first);
      return range.begin <= rank && rank < range.end;
    });
  };
  for (std::uint32_t rank = 0; rank < tree_.ranks(); ++rank) {
    if (!covered(parts_, rank) && !covered(running_, rank)) ranks.push_back(rank);
  }
  return ranks;
}

void SliceSum::clear() {
  TROUPE_CHECK(running_.empty(), "a sum is cleared while an addition runs");
  TROUPE_CHECK(ready_.empty(), "a sum is cleared before its additions have begun");
  parts_.clear();
}

bool SliceSum::held(const TreeNode& node) const {
  return parts_.count(node) != 0 || running_.count(node) != 0;
}

void SliceSum::drop_below(const TreeNode& node) {
  const auto below = [&](const auto& entry) { return tree_.covers(node, entry.first); };
  std::erase_if(parts_, below);
  std::erase_if(running_, below);
  std::erase_if(ready_,
                [&](const Addition& addition) { return tree_.covers(node, addition.node); });
}

/// Climbs from a node that is complete now: joins it with its sibling, then the result with its own
/// sibling, as far as both sides are there. An addition of bytes ends the climb, which goes on when
/// added() brings its sum.
void SliceSum::settle(TreeNode node) {
  while (const auto above = tree_.parent(node)) {
    const auto sides = tree_.children(*above);
    const auto left = parts_.find(sides->first);
    const auto right = parts_.find(sides->second);
    if (left == parts_.end() || right == parts_.end()) return;
    TROUPE_CHECK(!held(*above), "a node is held beside its own parts");
    SumPart a = std::move(left->second);
    SumPart b = std::move(right->second);
    parts_.erase(left);
    parts_.erase(right);
    if (a.data && b.data) {
      running_[*above] = {next_id_, a.count + b.count};
      ready_.push_back(
          {next_id_++, *above, std::move(a.data), std::move(b.data), a.fresh, b.fresh});
      return;
    }
    // Nothing plus something is that something (decision 0008): an addition of zeros would turn -0
    // into 0.
    const double count = a.count + b.count;
    SumPart& whole = parts_[*above];
    whole = a.data ? std::move(a) : std::move(b);
    whole.count = count;
    node = *above;
  }
}

}  // namespace troupe::store
