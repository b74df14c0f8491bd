// SPDX-License-Identifier: Apache-2.0
// A step's way through a machine: gradients, frontier sums, what goes to the owner.
#include "actors/sequential_gather.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace troupe::actors {

using schemas::PushResult;
using store::SlicePush;
using store::SumPart;
using store::TreeNode;

// ---- from gradients to frontier sums ----

FrontierSums::FrontierSums(const store::SliceRules& rules, std::uint32_t machine)
    : rules_(&rules), ranks_(rules.ranks_of_machine(machine)), sum_(rules.tree) {
  for (const TreeNode& node : rules.tree.frontier(ranks_)) frontier_.push_back({node, {}, {}});
  TROUPE_CHECK(!frontier_.empty(), fmt::format("machine {} gathers without a rank", machine));
}

bool FrontierSums::offer(std::uint32_t rank, base::Buffer data, double count) {
  TROUPE_CHECK(std::binary_search(ranks_.begin(), ranks_.end(), rank),
               fmt::format("a gradient of rank {} has come to a machine without it", rank));
  TROUPE_CHECK(data || count == 0.0,
               fmt::format("a gradient of rank {} has count {} and no bytes", rank, count));
  if (!sum_.offer(rules_->tree.leaf(rank), std::move(data), count)) return false;
  find_complete();
  return true;
}

bool FrontierSums::has(std::uint32_t rank) const {
  return sum_.has(rules_->tree.leaf(rank));
}

std::optional<GatherWork> FrontierSums::next_work() {
  if (auto addition = sum_.next_addition()) {
    running_[next_id_] = {addition->node, addition->id};
    return GatherWork{next_id_++, std::move(addition->left), std::move(addition->right)};
  }
  if (copies_.empty()) return std::nullopt;
  GatherWork copy = std::move(copies_.front());
  copies_.pop_front();
  return copy;
}

TreeNode FrontierSums::done(std::uint64_t id, base::Buffer result) {
  const auto found = running_.find(id);
  TROUPE_CHECK(found != running_.end(), "work ends that was never given");
  TROUPE_CHECK(result, "an addition or a copy has ended without bytes");
  const Work work = found->second;
  running_.erase(found);
  if (work.addition) {
    sum_.added(*work.addition, std::move(result));
    find_complete();
    return work.node;
  }
  const auto copied = std::find_if(frontier_.begin(), frontier_.end(),
                                   [&](const Node& at) { return at.node == work.node; });
  TROUPE_CHECK(copied != frontier_.end() && copied->state == State::copying,
               "a copy has ended of a sum that was not being copied");
  copied->sum = {std::move(result), sum_.part(work.node)->count, true};
  copied->state = State::complete;
  return work.node;
}

/// Looks for frontier nodes whose sum has just come together. It may be the buffer of a rank: of
/// one without sibling here, or of one whose siblings had no samples, since nothing plus something
/// is that something. Then it is copied before it goes out: the owner may hold a push as long as it
/// waits for other machines, and `taken` promises the rank that nobody reads its gradient any more.
void FrontierSums::find_complete() {
  for (Node& at : frontier_) {
    const SumPart* sum = at.state == State::adding ? sum_.part(at.node) : nullptr;
    if (sum == nullptr) continue;
    if (sum->fresh || !sum->data) {
      at.sum = *sum;
      at.state = State::complete;
      continue;
    }
    at.state = State::copying;
    running_[next_id_] = {at.node, {}};
    copies_.push_back({next_id_++, sum->data, {}});
  }
}

bool FrontierSums::complete() const {
  return std::all_of(frontier_.begin(), frontier_.end(), [](const Node& at) {
    return at.state == State::complete || at.state == State::given;
  });
}

std::optional<FrontierSum> FrontierSums::next_complete() {
  const auto next = std::find_if(frontier_.begin(), frontier_.end(),
                                 [](const Node& at) { return at.state == State::complete; });
  if (next == frontier_.end()) return std::nullopt;
  TROUPE_CHECK(next->sum.data || next->sum.count == 0.0,
               fmt::format("a frontier sum has count {} and no bytes", next->sum.count));
  next->state = State::given;
  return FrontierSum{next->node, std::exchange(next->sum, {})};
}

void FrontierSums::clear() {
  TROUPE_CHECK(running_.empty(),
               fmt::format("a step ends while {} additions or copies run", running_.size()));
  for (Node& at : frontier_) {
    TROUPE_CHECK(at.state == State::given, "a step ends before its sums have been sent");
    at.state = State::adding;
  }
  sum_.clear();
}

std::vector<std::uint32_t> FrontierSums::missing() const {
  const std::vector<std::uint32_t> all = sum_.missing();
  std::vector<std::uint32_t> own;
  std::set_intersection(all.begin(), all.end(), ranks_.begin(), ranks_.end(),
                        std::back_inserter(own));
  return own;
}

// ---- from frontier sums to one ----

OrderedSum::OrderedSum(std::deque<SumPart> parts) : parts_(std::move(parts)) {
  TROUPE_CHECK(!parts_.empty(), "a sum of no parts");
  advance();
}

/// Takes parts until two of them have to be added. A part without samples is never added, not even
/// as zeros: that would turn -0 into 0 (decision 0008, No samples).
void OrderedSum::advance() {
  while (!running_ && !parts_.empty()) {
    SumPart next = std::move(parts_.front());
    parts_.pop_front();
    TROUPE_CHECK(next.data || next.count == 0.0,
                 fmt::format("a part of a sum has count {} and no bytes", next.count));
    total_.count += next.count;
    if (!total_.data) {
      total_.data = std::move(next.data);
    } else if (next.data) {
      running_ = next_id_++;
      ready_ = GatherWork{*running_, std::move(total_.data), std::move(next.data)};
    }
  }
}

std::optional<GatherWork> OrderedSum::next_work() {
  return std::exchange(ready_, std::nullopt);
}

void OrderedSum::done(std::uint64_t id, base::Buffer result) {
  TROUPE_CHECK(running_ == id && !ready_, "work ends that was never given");
  TROUPE_CHECK(result, "an addition has ended without bytes");
  running_.reset();
  total_.data = std::move(result);
  advance();
}

SumPart OrderedSum::take() {
  TROUPE_CHECK(complete(), "a sum is taken before its last addition has ended");
  return std::move(total_);
}

// ---- a step ----

SequentialGather::SequentialGather(const store::SliceRules& rules, std::uint32_t machine)
    : rules_(&rules), machine_(machine), step_(rules.steps.start), frontier_(rules, machine) {}

void SequentialGather::push(RankPush push) {
  if (push.step < step_) return answer(push.rank, push.step, PushResult::duplicate);
  if (push.step > step_ + 1) return answer(push.rank, push.step, PushResult::not_ready);
  if (push.step == step_) return offer(std::move(push));
  early_.try_emplace(push.rank, std::move(push));
}

std::optional<PushResult> SequentialGather::asked(std::uint32_t rank, std::uint64_t step) const {
  if (step < step_) return PushResult::duplicate;
  if (step > step_) {
    const bool waits = step == step_ + 1 && early_.count(rank) != 0;
    return waits ? std::nullopt : std::optional(PushResult::unknown);
  }
  if (borrowed_.count(rank) != 0) return std::nullopt;
  return frontier_.has(rank) ? PushResult::duplicate : PushResult::unknown;
}

/// A gradient of the open step.
void SequentialGather::offer(RankPush push) {
  const bool something = static_cast<bool>(push.data);
  const std::size_t bytes = push.data.size();
  if (!frontier_.offer(push.rank, std::move(push.data), push.count)) {
    // A repeated push of a gradient still being read is answered when it has been.
    if (borrowed_.count(push.rank) == 0) answer(push.rank, push.step, PushResult::duplicate);
    return;
  }
  if (something) {
    TROUPE_CHECK(borrowed_.emplace(push.rank, bytes).second,
                 fmt::format("a second gradient of rank {} is read in step {}", push.rank, step_));
  } else {
    answer(push.rank, push.step, PushResult::taken);
  }
  pass_on();
}

std::optional<GatherWork> SequentialGather::next_work() {
  return whole_ ? whole_->next_work() : frontier_.next_work();
}

void SequentialGather::done(std::uint64_t id, base::Buffer result) {
  if (whole_) {
    whole_->done(id, std::move(result));
  } else {
    release(frontier_.done(id, std::move(result)));
  }
  pass_on();
}

/// The gradients below a node have been read for the last time.
void SequentialGather::release(const TreeNode& node) {
  const store::RankRange range = rules_->tree.ranks_of(node);
  for (std::uint32_t rank = range.begin; rank < range.end; ++rank) {
    const auto borrowed = borrowed_.find(rank);
    if (borrowed == borrowed_.end()) continue;
    answer(rank, step_, PushResult::taken, borrowed->second);
    borrowed_.erase(borrowed);
  }
}

/// What is complete goes to the owner. Under cluster sequential the owner adds on along the same
/// tree, so it needs the frontier's nodes one by one, each as early as possible. Under cluster
/// eventual it applies what a machine sends as one contribution, so there must be one per step.
void SequentialGather::pass_on() {
  if (rules_->cluster_sequential()) {
    send_frontier();
  } else {
    send_whole();
  }
}

void SequentialGather::send_frontier() {
  while (auto next = frontier_.next_complete()) {
    outgoing_.push_back(
        {machine_, next->node, step_, next->sum.count, {}, std::move(next->sum.data)});
  }
  if (frontier_.complete()) end_step();
}

void SequentialGather::send_whole() {
  if (!frontier_.complete()) return;
  if (!whole_) {
    std::deque<SumPart> parts;
    while (auto next = frontier_.next_complete()) parts.push_back(std::move(next->sum));
    whole_.emplace(std::move(parts));
  }
  if (!whole_->complete()) return;
  SumPart sum = whole_->take();
  SlicePush push{machine_, machine_node(machine_), step_, sum.count, {}, std::move(sum.data)};
  for (const std::uint32_t rank : rules_->ranks_of_machine(machine_)) {
    push.contributions.push_back({rank, step_});
  }
  TROUPE_CHECK(push.data || push.count == 0.0,
               fmt::format("the sum of step {} has count {} and no bytes", step_, push.count));
  outgoing_.push_back(std::move(push));
  end_step();
}

void SequentialGather::end_step() {
  TROUPE_CHECK(borrowed_.empty(), fmt::format("step {} ends while gradients of {} ranks are read",
                                              step_, borrowed_.size()));
  whole_.reset();
  frontier_.clear();
  ++step_;
  for (auto& [rank, push] : std::exchange(early_, {})) offer(std::move(push));
}

std::optional<SlicePush> SequentialGather::next_push(const OwnerView&) {
  if (outgoing_.empty()) return std::nullopt;
  // The owner keeps at most one step's sums that come too early for it.
  if (unacknowledged_ > 0 && outgoing_.front().step != sent_step_) return std::nullopt;
  SlicePush push = std::move(outgoing_.front());
  outgoing_.pop_front();
  TROUPE_CHECK(push.step <= step_ && !push.abstains,
               fmt::format("a push of step {} goes out in step {}", push.step, step_));
  sent_step_ = push.step;
  ++unacknowledged_;
  return push;
}

void SequentialGather::acknowledged(std::uint64_t step) {
  TROUPE_CHECK(unacknowledged_ > 0 && step == sent_step_,
               fmt::format("step {} is acknowledged while sums of step {} wait", step, sent_step_));
  --unacknowledged_;
}

}  // namespace troupe::actors
