// SPDX-License-Identifier: Apache-2.0
// The two ways of gathering gradients inside a machine.
#include "actors/device_gather.h"

#include <algorithm>

#include "base/check.h"

namespace troupe::actors {

using schemas::PushResult;
using store::SlicePush;
using store::SumPart;
using store::TreeNode;

namespace {

/// The name of a machine's push where no tree node names it.
TreeNode machine_node(std::uint32_t machine) {
  return {1, 0, machine, machine + 1};
}

}  // namespace

std::unique_ptr<DeviceGather> make_gather(const store::SliceRules& rules, std::uint32_t machine) {
  if (rules.device_sequential()) return std::make_unique<SequentialGather>(rules, machine);
  return std::make_unique<EventualGather>(rules, machine);
}

// ---- in lock step ----

SequentialGather::SequentialGather(const store::SliceRules& rules, std::uint32_t machine)
    : rules_(&rules),
      machine_(machine),
      ranks_(rules.ranks_of_machine(machine)),
      frontier_(rules.tree.frontier(ranks_)),
      step_(rules.steps.start),
      sum_(rules.tree) {}

void SequentialGather::push(RankPush push) {
  if (push.step != step_) {
    const bool past = push.step < step_;
    return answer(push.rank, push.step, past ? PushResult::duplicate : PushResult::not_ready);
  }
  const bool something = static_cast<bool>(push.data);
  const std::size_t bytes = push.data.size();
  if (!sum_.offer(rules_->tree.leaf(push.rank), std::move(push.data), push.count)) {
    // A repeated push of a gradient still being read is answered when it has been.
    if (borrowed_.count(push.rank) == 0) answer(push.rank, push.step, PushResult::duplicate);
    return;
  }
  if (something) {
    borrowed_[push.rank] = bytes;
  } else {
    answer(push.rank, push.step, PushResult::taken);
  }
  settle();
}

std::optional<GatherWork> SequentialGather::next_work() {
  if (auto addition = sum_.next_addition()) {
    running_[next_id_] = {Running::Kind::addition, addition->id, addition->node};
    return GatherWork{next_id_++, std::move(addition->left), std::move(addition->right)};
  }
  if (ready_.empty()) return std::nullopt;
  GatherWork work = std::move(ready_.front());
  ready_.pop_front();
  return work;
}

void SequentialGather::done(std::uint64_t id, base::Buffer result) {
  const auto found = running_.find(id);
  TROUPE_CHECK(found != running_.end(), "work ends that was never given");
  const Running running = found->second;
  running_.erase(found);
  if (running.kind == Running::Kind::chain) {
    chain_.front().data = std::move(result);
    chaining_ = false;
    return settle();
  }
  release(running.node);
  if (running.kind == Running::Kind::addition) {
    sum_.added(running.addition, std::move(result));
  } else {
    closed_[running.node] = {std::move(result), sum_.part(running.node)->count, true};
  }
  settle();
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

/// Closes frontier nodes whose sum is complete, and the step when all of them are.
void SequentialGather::settle() {
  for (const TreeNode& node : frontier_) {
    const SumPart* part = sum_.part(node);
    if (part == nullptr || closed_.count(node) != 0 || copying_.count(node) != 0) continue;
    if (part->fresh || !part->data) {
      closed_[node] = *part;
      continue;
    }
    copying_.insert(node);
    running_[next_id_] = {Running::Kind::copy, 0, node};
    ready_.push_back({next_id_++, part->data, {}});
  }
  if (rules_->cluster_sequential()) {
    for (auto& [node, part] : closed_) {
      if (part.count < 0.0) continue;  // sent
      outgoing_.push_back({machine_, node, step_, part.count, {}, std::move(part.data)});
      part.count = -1.0;
    }
    if (closed_.size() == frontier_.size()) finish_step();
    return;
  }
  if (closed_.size() < frontier_.size()) return;
  if (chain_.empty()) {
    for (const TreeNode& node : frontier_) chain_.push_back(std::move(closed_[node]));
  }
  while (chain_.size() > 1 && !chaining_) {
    SumPart next = std::move(chain_[1]);
    chain_.erase(chain_.begin() + 1);
    SumPart& first = chain_.front();
    first.count += next.count;
    if (!first.data) {
      first.data = std::move(next.data);
    } else if (next.data) {
      chaining_ = true;
      running_[next_id_] = {Running::Kind::chain, 0, {}};
      ready_.push_back({next_id_++, std::move(first.data), std::move(next.data)});
    }
  }
  if (!chaining_) finish_step();
}

void SequentialGather::finish_step() {
  if (!rules_->cluster_sequential()) {
    SlicePush push{machine_, machine_node(machine_), step_, chain_.front().count, {}, {}};
    push.data = std::move(chain_.front().data);
    for (const std::uint32_t rank : ranks_) push.contributions.push_back({rank, step_});
    outgoing_.push_back(std::move(push));
  }
  chain_.clear();
  closed_.clear();
  copying_.clear();
  sum_.clear();
  ++step_;
}

std::optional<SlicePush> SequentialGather::next_push(const OwnerView&) {
  if (outgoing_.empty()) return std::nullopt;
  SlicePush push = std::move(outgoing_.front());
  outgoing_.pop_front();
  return push;
}

std::vector<std::uint32_t> SequentialGather::missing() const {
  const std::vector<std::uint32_t> all = sum_.missing();
  std::vector<std::uint32_t> own;
  std::set_intersection(all.begin(), all.end(), ranks_.begin(), ranks_.end(),
                        std::back_inserter(own));
  return own;
}

// ---- whatever has come ----

EventualGather::EventualGather(const store::SliceRules& rules, std::uint32_t machine)
    : rules_(&rules), machine_(machine) {
  for (const std::uint32_t rank : rules.ranks_of_machine(machine)) {
    arrived_[rank] = unsent_[rank] = rules.steps.start;
  }
}

void EventualGather::push(RankPush push) {
  std::uint64_t& next = arrived_.at(push.rank);
  if (push.step > next) return answer(push.rank, push.step, PushResult::not_ready);
  if (push.step < next) {
    const auto same = [&](const RankPush& other) {
      return other.rank == push.rank && other.step == push.step;
    };
    const bool borrowed =
        (adding_ && same(*adding_)) || std::any_of(arrivals_.begin(), arrivals_.end(), same);
    if (!borrowed) answer(push.rank, push.step, PushResult::duplicate);
    return;
  }
  ++next;
  arrivals_.push_back(std::move(push));
}

std::optional<GatherWork> EventualGather::next_work() {
  while (!adding_ && !arrivals_.empty()) {
    RankPush push = std::move(arrivals_.front());
    arrivals_.pop_front();
    if (!push.data) {
      take(push);
      continue;
    }
    adding_ = push;
    if (!held_.data) return GatherWork{next_id_, std::move(push.data), {}};
    return GatherWork{next_id_, std::move(held_.data), std::move(push.data)};
  }
  return std::nullopt;
}

void EventualGather::done(std::uint64_t id, base::Buffer result) {
  TROUPE_CHECK(adding_ && id == next_id_, "work ends that was never given");
  ++next_id_;
  held_.data = std::move(result);
  const RankPush push = std::move(*adding_);
  adding_.reset();
  take(push);
}

void EventualGather::take(const RankPush& push) {
  held_.count += push.count;
  held_.contributions.push_back({push.rank, push.step});
  answer(push.rank, push.step, PushResult::taken, push.data.size());
}

std::optional<SlicePush> EventualGather::next_push(const OwnerView& held) {
  if (adding_ || !held.version) return std::nullopt;
  if (held_.contributions.empty()) return abstain(held);
  const bool lock_step = rules_->cluster_sequential();
  const bool waits =
      lock_step ? !held.contained || pushed_version_ == held.version : outstanding_.has_value();
  if (waits) return std::nullopt;
  SlicePush push = std::exchange(held_, {});
  push.machine = machine_;
  push.node = machine_node(machine_);
  push.step = lock_step ? *held.version : number_;
  if (lock_step) {
    pushed_version_ = held.version;
  } else {
    outstanding_ = number_;
  }
  ++number_;
  for (const auto& [rank, step] : push.contributions) unsent_[rank] = step + 1;
  return push;
}

/// A machine that has nothing to push while all its ranks wait says so: otherwise two slices'
/// rounds could wait for each other's machines for ever (decision 0008).
std::optional<SlicePush> EventualGather::abstain(const OwnerView& held) {
  if (!rules_->has_abstentions() || !held.blocked) return std::nullopt;
  if (!held.contained || !arrivals_.empty()) return std::nullopt;
  if (spoken_version() >= held.version) return std::nullopt;
  abstained_version_ = held.version;
  SlicePush push;
  push.machine = machine_;
  push.node = {1, 0, machine_, machine_};
  push.step = *held.version;
  push.abstains = true;
  return push;
}

void EventualGather::acknowledged(std::uint64_t number) {
  if (outstanding_ == number) outstanding_.reset();
}

std::vector<std::uint32_t> EventualGather::missing() const {
  std::uint64_t lowest = store::kNoStep;
  for (const auto& [rank, step] : arrived_) lowest = std::min(lowest, step);
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, step] : arrived_) {
    if (step == lowest) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace troupe::actors
