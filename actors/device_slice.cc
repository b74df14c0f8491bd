// SPDX-License-Identifier: Apache-2.0
// The barriers between a slice's gradients and its weights.
#include "actors/device_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace troupe::actors {

using schemas::WeightPull;

DeviceSlice::DeviceSlice(const store::SliceRules& rules, std::uint32_t machine, schemas::SliceId id)
    : rules_(&rules),
      id_(id),
      ranks_(rules.ranks_of_machine(machine)),
      gather_(make_gather(rules, machine)),
      weights_(rules, machine, id) {
  TROUPE_CHECK(!ranks_.empty(), fmt::format("machine {} serves a slice without a rank", machine));
}

/// True when contributions of this step must not be summed yet: the owner may not be given any
/// before the last barrier's are all in, or the barrier's version would contain something later
/// (decision 0008, Barriers). Where both tiers are sequential every step is complete before the
/// next.
bool DeviceSlice::beyond_barrier(std::uint64_t step) const {
  return !rules_->sequential() && barrier_complete_ < rules_->steps.barrier_at(step);
}

void DeviceSlice::push(RankPush push) {
  TROUPE_CHECK(std::binary_search(ranks_.begin(), ranks_.end(), push.rank),
               fmt::format("a gradient of rank {} has come to a machine without it", push.rank));
  if (beyond_barrier(push.step)) {
    barrier_wanted_ = rules_->steps.barrier_at(push.step);
    held_back_.try_emplace(push.rank, std::move(push));
    return;
  }
  if (push.step >= hold_) {
    held_back_.try_emplace(push.rank, std::move(push));
    return;
  }
  gather_->push(std::move(push));
  std::uint64_t arrived = gather_->arrived(ranks_.front());
  for (const std::uint32_t rank : ranks_) arrived = std::min(arrived, gather_->arrived(rank));
  weights_.passed(arrived);
}

std::optional<schemas::PushResult> DeviceSlice::asked(std::uint32_t rank,
                                                      std::uint64_t step) const {
  const auto held = held_back_.find(rank);
  if (held != held_back_.end() && held->second.step == step) return std::nullopt;
  return gather_->asked(rank, step);
}

std::optional<store::SlicePush> DeviceSlice::next_push(bool blocked) {
  OwnerView view = weights_.owner(*gather_);
  view.blocked = blocked;
  std::optional<store::SlicePush> push = gather_->next_push(view);
  if (!push) return push;
  for (const auto& [rank, step] : push->contributions) {
    TROUPE_CHECK(
        !beyond_barrier(step),
        fmt::format("rank {} step {} goes to the owner in front of a barrier", rank, step));
  }
  return push;
}

void DeviceSlice::want(std::uint32_t rank, std::uint64_t step) {
  // A rank that has gone on from weights it was given asks for them no more: this is an echo.
  if (weights_.handed(rank, step) && gather_->arrived(rank) > step) return;
  if (step < hold_) return weights_.want(rank, step);
  std::uint64_t& wanted = held_wishes_[rank];
  wanted = std::max(wanted, step);
}

bool DeviceSlice::waits(std::uint32_t rank) const {
  return weights_.waits(rank) || held_wishes_.contains(rank);
}

/// Held gradients are of steps beyond a barrier that is not complete, and have not been touched.
std::uint64_t DeviceSlice::begun() const {
  return std::max(gather_->begun(), weights_.wanted_below());
}

void DeviceSlice::hold(std::uint64_t step) {
  hold_ = step;
  for (auto& [rank, push] : std::exchange(held_back_, {})) this->push(std::move(push));
  for (const auto& [rank, wanted] : std::exchange(held_wishes_, {})) want(rank, wanted);
}

/// What ranks need, and the barrier that gradients wait for. That one is asked for even if no rank
/// wants its weights: nothing else tells that it is complete.
std::vector<WeightPull> DeviceSlice::desired() const {
  std::vector<WeightPull> pulls = weights_.desired(*gather_);
  if (barrier_wanted_ && barrier_complete_ < *barrier_wanted_) {
    const WeightPull pull{id_, schemas::kBarrierVersion, *barrier_wanted_, *barrier_wanted_};
    const auto at = std::lower_bound(pulls.begin(), pulls.end(), pull);
    if (at == pulls.end() || *at != pull) pulls.insert(at, pull);
  }
  TROUPE_CHECK(
      std::adjacent_find(pulls.begin(), pulls.end(), std::greater_equal<>()) == pulls.end(),
      "a question to the owner is asked twice, or out of order");
  return pulls;
}

base::Status DeviceSlice::replied(const schemas::WeightReply& reply, const base::Buffer& weight) {
  if (reply.code != base::Errc::ok) {
    // The owner has nothing to give for a question long answered, which is no loss.
    const auto pulls = desired();
    const bool needed = std::any_of(pulls.begin(), pulls.end(), [&](const WeightPull& pull) {
      return pull.version == reply.version && pull.step == reply.step;
    });
    return needed ? base::Status(reply.code, reply.text) : base::Status();
  }
  TROUPE_TRY(weights_.take(reply, weight));
  if (!rules_->sequential()) note_complete(reply.next);
  return {};
}

/// Contributions that the owner has of each rank: the barrier below all of them is complete, and
/// gradients that waited for it go on.
void DeviceSlice::note_complete(const std::vector<std::uint64_t>& next) {
  const std::uint64_t low = *std::min_element(next.begin(), next.end());
  const std::optional<std::uint64_t> complete = rules_->steps.barrier_at(low);
  barrier_complete_ = std::max(barrier_complete_, complete);
  for (auto& [rank, push] : std::exchange(held_back_, {})) this->push(std::move(push));
  for (const auto& [rank, push] : held_back_) {
    TROUPE_CHECK(
        beyond_barrier(push.step) || push.step >= hold_,
        fmt::format("rank {} step {} waits for a barrier that is complete", rank, push.step));
  }
}

std::string DeviceSlice::waits_for() const {
  const std::string name = fmt::format("slice ({}, {})", id_.key, id_.slice);
  if (!weights_.waiting().empty()) {
    const auto& [rank, step] = *weights_.waiting().begin();
    return fmt::format("{}: rank {} waits for its owner's weights of step {}", name, rank, step);
  }
  return fmt::format("{} waits for gradients of ranks {}", name,
                     fmt::join(gather_->missing(), ", "));
}

}  // namespace troupe::actors
