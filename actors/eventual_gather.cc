// SPDX-License-Identifier: Apache-2.0
// What has come, what has been sent, and when the next push may go out.
#include "actors/eventual_gather.h"

#include <fmt/core.h>

#include "base/check.h"

namespace troupe::actors {

using schemas::PushResult;
using store::SlicePush;

EventualGather::EventualGather(const store::SliceRules& rules, std::uint32_t machine)
    : rules_(&rules), machine_(machine) {
  for (const std::uint32_t rank : rules.ranks_of_machine(machine)) {
    arrived_[rank] = unsent_[rank] = rules.steps.start;
  }
  TROUPE_CHECK(!arrived_.empty(), fmt::format("machine {} gathers without a rank", machine));
}

void EventualGather::push(RankPush push) {
  const auto found = arrived_.find(push.rank);
  TROUPE_CHECK(found != arrived_.end(),
               fmt::format("a gradient of rank {} has come to a machine without it", push.rank));
  TROUPE_CHECK(
      push.data || push.count == 0.0,
      fmt::format("a gradient of rank {} has count {} and no bytes", push.rank, push.count));
  std::uint64_t& next = found->second;
  if (push.step > next) return answer(push.rank, push.step, PushResult::not_ready);
  if (push.step < next) {
    if (!borrowed(push.rank, push.step)) answer(push.rank, push.step, PushResult::duplicate);
    return;
  }
  ++next;
  arrivals_.push_back(std::move(push));
}

std::uint64_t EventualGather::begun() const {
  const auto first = std::max_element(arrived_.begin(), arrived_.end(),
                                      [](auto& a, auto& b) { return a.second < b.second; });
  return first->second;
}

/// True while the gradient waits or is being read: it is answered when it has been.
bool EventualGather::borrowed(std::uint32_t rank, std::uint64_t step) const {
  const auto same = [&](const RankPush& other) { return other.rank == rank && other.step == step; };
  return (adding_ && same(*adding_)) || std::any_of(arrivals_.begin(), arrivals_.end(), same);
}

std::optional<PushResult> EventualGather::asked(std::uint32_t rank, std::uint64_t step) const {
  const auto next = arrived_.find(rank);
  if (next == arrived_.end() || step >= next->second) return PushResult::unknown;
  return borrowed(rank, step) ? std::nullopt : std::optional(PushResult::duplicate);
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
    if (!sum_.data) return GatherWork{next_id_, std::move(push.data), {}};
    return GatherWork{next_id_, std::move(sum_.data), std::move(push.data)};
  }
  return std::nullopt;
}

void EventualGather::done(std::uint64_t id, base::Buffer result) {
  TROUPE_CHECK(adding_ && id == next_id_, "work ends that was never given");
  TROUPE_CHECK(result, "an addition or a copy has ended without bytes");
  ++next_id_;
  sum_.data = std::move(result);
  const RankPush push = std::move(*adding_);
  adding_.reset();
  take(push);
}

void EventualGather::take(const RankPush& push) {
  TROUPE_CHECK(push.step < arrived_.at(push.rank) && push.step >= unsent_.at(push.rank),
               fmt::format("rank {} step {} is summed twice", push.rank, push.step));
  sum_.count += push.count;
  sum_.contributions.push_back({push.rank, push.step});
  answer(push.rank, push.step, PushResult::taken, push.data.size());
}

std::optional<SlicePush> EventualGather::next_push(const OwnerView& owner) {
  if (adding_ || !owner.version) return std::nullopt;
  if (sum_.contributions.empty()) return abstain(owner);
  if (!may_push(owner)) return std::nullopt;
  SlicePush push = std::exchange(sum_, {});
  TROUPE_CHECK(push.data || push.count == 0.0,
               fmt::format("a sum has count {} and no bytes", push.count));
  push.machine = machine_;
  push.node = machine_node(machine_);
  if (rules_->cluster_sequential()) {
    TROUPE_CHECK(pushed_version_ < owner.version,
                 fmt::format("a push to version {} after a later one", *owner.version));
    push.step = *owner.version;
    pushed_version_ = owner.version;
  } else {
    push.step = number_;
    outstanding_ = number_;
  }
  ++number_;
  for (const auto& [rank, step] : push.contributions) {
    std::uint64_t& unsent = unsent_.at(rank);
    TROUPE_CHECK(step == unsent,
                 fmt::format("rank {} step {} is sent where step {} is next", rank, step, unsent));
    ++unsent;
  }
  return push;
}

/// Whether the sum that is there may go out. Cluster sequential: a round takes one push of a
/// machine, and the next push belongs to a version that contains the last one. Cluster eventual:
/// one push is unacknowledged at most, so that the owner keeps no table of steps and one push per
/// machine whatever the bound; what comes meanwhile is summed here (decision 0008,
/// Acknowledgements).
bool EventualGather::may_push(const OwnerView& owner) const {
  if (!rules_->cluster_sequential()) return !outstanding_;
  return owner.contained && pushed_version_ != owner.version;
}

/// A machine that has nothing to push while all its ranks wait says so: the open round of this
/// slice would wait for it, while its ranks wait for the round of another slice, whose machines may
/// wait for this one (decision 0008, Abstentions; with and without a bound of staleness, decision
/// 0010). Once per version; a gradient may still come for the version, and then goes out as a push.
std::optional<SlicePush> EventualGather::abstain(const OwnerView& owner) {
  if (!rules_->has_abstentions() || !owner.blocked) return std::nullopt;
  if (!owner.contained || !arrivals_.empty()) return std::nullopt;
  if (spoken_version() >= owner.version) return std::nullopt;
  TROUPE_CHECK(!sum_.data, "a machine abstains that has a sum to push");
  abstained_version_ = owner.version;
  SlicePush push;
  push.machine = machine_;
  push.node = {1, 0, machine_, machine_};
  push.step = *owner.version;
  push.abstains = true;
  return push;
}

void EventualGather::acknowledged(std::uint64_t number) {
  TROUPE_CHECK(!outstanding_ || *outstanding_ + 1 == number_,
               "the push that waits for its answer is not the last one");
  if (outstanding_ == number) outstanding_.reset();
}

std::vector<std::uint32_t> EventualGather::missing() const {
  const auto last = std::min_element(arrived_.begin(), arrived_.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, step] : arrived_) {
    if (step == last->second) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace troupe::actors
