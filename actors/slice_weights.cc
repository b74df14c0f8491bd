// SPDX-License-Identifier: Apache-2.0
// Judging held weights against what a step needs, and asking for better ones.
#include "actors/slice_weights.h"

#include <fmt/core.h>

#include <algorithm>

namespace troupe::actors {

using schemas::kBarrierVersion;
using schemas::kNewestVersion;
using schemas::WeightPull;

SliceWeights::SliceWeights(const store::SliceRules& rules, std::uint32_t machine,
                           schemas::SliceId slice)
    : rules_(&rules), ranks_(rules.ranks_of_machine(machine)), slice_(slice) {}

void SliceWeights::want(std::uint32_t rank, std::uint64_t step) {
  const auto handed = handed_.find(rank);
  if (handed != handed_.end() && step < handed->second) return;
  std::uint64_t& wanted = waiting_[rank];
  wanted = std::max(wanted, step);
  asked_ = true;
}

bool SliceWeights::handed(std::uint32_t rank, std::uint64_t step) const {
  const auto handed = handed_.find(rank);
  return handed != handed_.end() && handed->second == step;
}

void SliceWeights::require_barrier(std::uint64_t barrier) {
  barrier_required_ = barrier;
}

void SliceWeights::passed(std::uint64_t step) {
  const auto wanted = [&](const auto& entry) { return entry.second == barrier_->step; };
  if (!barrier_ || barrier_->step >= step) return;
  if (std::none_of(waiting_.begin(), waiting_.end(), wanted)) barrier_.reset();
}

OwnerView SliceWeights::owner(const DeviceGather& gather) const {
  if (!held_) return {};
  return {held_->version, !held_->next.empty() && contained(*held_, gather), false};
}

/// Everything that the machine has sent is in these weights.
bool SliceWeights::contained(const Held& held, const DeviceGather& gather) const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [&](std::uint32_t rank) { return held.next[rank] >= gather.unsent(rank); });
}

std::uint64_t SliceWeights::lowest(const Held& held) const {
  return *std::min_element(held.next.begin(), held.next.end());
}

std::uint64_t SliceWeights::lowest_own(const Held& held) const {
  std::uint64_t low = store::kNoStep;
  for (const std::uint32_t rank : ranks_) low = std::min(low, held.next[rank]);
  return low;
}

/// All contributions of all ranks below this step must be in the weights of `step`.
std::uint64_t SliceWeights::needed_of_all(std::uint64_t step) const {
  const auto bound = rules_->consistency.cluster.max_staleness;
  const std::uint64_t stale = bound && step > *bound ? step - *bound : 0;
  return std::max(rules_->steps.barrier_at(step), stale);
}

/// The same for the ranks of this machine.
std::uint64_t SliceWeights::needed_of_own(std::uint64_t step) const {
  const auto bound = rules_->consistency.device.max_staleness;
  return bound && step > *bound ? step - *bound : 0;
}

/// The weights for a rank's step among those held; null: they have to be asked for or waited for.
const SliceWeights::Held* SliceWeights::held_for(std::uint32_t rank, std::uint64_t step) const {
  if (lock_step()) {
    for (const auto* held : {&held_, &previous_}) {
      if (*held && (*held)->step == step) return &**held;
    }
    return nullptr;
  }
  if (rules_->steps.is_barrier(step)) {
    return barrier_ && barrier_->step == step ? &*barrier_ : nullptr;
  }
  if (!held_ || held_->next[rank] < step) return nullptr;
  if (lowest(*held_) < needed_of_all(step)) return nullptr;
  return lowest_own(*held_) < needed_of_own(step) ? nullptr : &*held_;
}

std::vector<WeightPull> SliceWeights::desired(const DeviceGather& gather) const {
  std::vector<WeightPull> pulls;
  for (const auto& [rank, step] : waiting_) {
    if (held_for(rank, step) == nullptr) pull_for_step(step, pulls);
  }
  if (barrier_required_ && (!barrier_known_ || *barrier_required_ > barrier_reached_)) {
    pulls.push_back({slice_, kBarrierVersion, *barrier_required_, *barrier_required_});
  }
  if (!lock_step()) pull_newer(gather, pulls);
  std::sort(pulls.begin(), pulls.end());
  pulls.erase(std::unique(pulls.begin(), pulls.end()), pulls.end());
  return pulls;
}

void SliceWeights::pull_for_step(std::uint64_t step, std::vector<WeightPull>& pulls) const {
  if (rules_->sequential()) {
    pulls.push_back({slice_, step, 0, step});
  } else if (rules_->steps.is_barrier(step)) {
    pulls.push_back({slice_, kBarrierVersion, step, step});
  } else if (lock_step()) {
    pulls.push_back({slice_, kNewestVersion, needed_of_all(step), step});
  } else if (held_ && lowest(*held_) < needed_of_all(step)) {
    pulls.push_back({slice_, kNewestVersion, needed_of_all(step), 0});
  }
}

/// Eventual device: what keeps the newest version held fresh.
void SliceWeights::pull_newer(const DeviceGather& gather, std::vector<WeightPull>& pulls) const {
  if (!held_) return;
  if (rules_->cluster_sequential()) {
    // Every push names a version, so the next one must be known before the next push.
    if (gather.spoken_version() >= held_->version || !contained(*held_, gather)) {
      pulls.push_back({slice_, kNewestVersion, 0, held_->version + 1});
    }
    return;
  }
  if (asked_ && !contained(*held_, gather))
    pulls.push_back({slice_, kNewestVersion, 0, gather.number()});
}

base::Status SliceWeights::replied(const schemas::WeightReply& reply, const base::Buffer& weight,
                                   const DeviceGather& gather) {
  if (reply.code != base::Errc::ok) {
    const auto pulls = desired(gather);
    const bool needed = std::any_of(pulls.begin(), pulls.end(), [&](const WeightPull& pull) {
      return pull.version == reply.version && pull.step == reply.step;
    });
    return needed ? base::Status(reply.code, reply.text) : base::Status();
  }
  const std::size_t ranks = rules_->tree.ranks();
  if (rules_->sequential() ? !reply.next.empty() : reply.next.size() != ranks) {
    return base::error(base::Errc::data_loss, "slice ({}, {}) came with {} counts for {} ranks",
                       slice_.key, slice_.slice, reply.next.size(), ranks);
  }
  keep({reply.version, reply.step, weight, reply.next});
  return {};
}

void SliceWeights::keep(Held held) {
  if (!rules_->sequential()) {
    // What is complete below a step is complete at the barrier before it.
    const std::uint64_t low = lowest(held);
    const std::uint64_t reached = rules_->steps.barrier_at(low);
    if (!barrier_known_ || reached > barrier_reached_) {
      barrier_known_ = true;
      barrier_reached_ = reached;
    }
    const std::uint64_t high = *std::max_element(held.next.begin(), held.next.end());
    const bool exact = low == high && reached == low;
    if (!lock_step() && exact && (!barrier_ || barrier_->step < low)) {
      barrier_ = held;
      barrier_->step = low;
    }
  }
  const bool newer =
      !held_ || (lock_step() ? held.step > held_->step : held.version > held_->version);
  if (!newer) return;
  previous_ = std::exchange(held_, std::move(held));
  if (!lock_step()) previous_.reset();  // older than the newest is of no use there
  asked_ = !waiting_.empty();
}

std::optional<Handout> SliceWeights::next_handout() {
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const auto [rank, step] = *at;
    const Held* held = held_for(rank, step);
    if (held == nullptr) continue;
    Handout handout{rank, step, held->version, held->weight, held->next};
    handed_[rank] = step;
    waiting_.erase(at);
    return handout;
  }
  return std::nullopt;
}

}  // namespace troupe::actors
