// SPDX-License-Identifier: Apache-2.0
// Judging held weights against what a step needs, and asking for better ones.
#include "actors/slice_weights.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace troupe::actors {

using schemas::kBarrierVersion;
using schemas::kNewestVersion;
using schemas::WeightPull;

namespace {

/// Every contribution of every rank below this step is contained.
std::uint64_t lowest(const std::vector<std::uint64_t>& next) {
  return *std::min_element(next.begin(), next.end());
}

}  // namespace

SliceWeights::SliceWeights(const store::SliceRules& rules, std::uint32_t machine,
                           schemas::SliceId slice)
    : rules_(&rules), ranks_(rules.ranks_of_machine(machine)), slice_(slice) {}

void SliceWeights::want(std::uint32_t rank, std::uint64_t step) {
  TROUPE_CHECK(std::binary_search(ranks_.begin(), ranks_.end(), rank),
               fmt::format("rank {} wants weights of a machine without it", rank));
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

std::uint64_t SliceWeights::wanted_below() const {
  std::uint64_t below = rules_->steps.start;
  for (const auto* steps : {&waiting_, &handed_}) {
    for (const auto& [rank, step] : *steps) below = std::max(below, step + 1);
  }
  return below;
}

void SliceWeights::passed(std::uint64_t step) {
  if (!barrier_ || barrier_->step >= step) return;
  const bool wanted = std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    return entry.second == barrier_->step;
  });
  if (!wanted) barrier_.reset();
}

OwnerView SliceWeights::owner(const DeviceGather& gather) const {
  if (!newest_) return {};
  return {newest_->version, !rules_->sequential() && contained(*newest_, gather), false};
}

/// Everything that the machine has sent is in these weights.
bool SliceWeights::contained(const Held& held, const DeviceGather& gather) const {
  TROUPE_CHECK(held.next.size() == rules_->tree.ranks(),
               fmt::format("version {} does not say what it contains", held.version));
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [&](std::uint32_t rank) { return held.next[rank] >= gather.unsent(rank); });
}

std::uint64_t SliceWeights::lowest_own(const Held& held) const {
  const auto last = std::min_element(
      ranks_.begin(), ranks_.end(),
      [&](std::uint32_t a, std::uint32_t b) { return held.next[a] < held.next[b]; });
  return held.next[*last];
}

// ---- which weights will do ----

/// All contributions of all ranks of the job below this step must be in the weights of `step`.
/// Those below the last barrier, in every mode: nobody begins a step behind it without them
/// (decision 0008, Barriers). And with a bound s on the cluster tier those up to `step` - 1 - s.
std::uint64_t SliceWeights::needed_of_all(std::uint64_t step) const {
  const auto bound = rules_->consistency.cluster.max_staleness;
  const std::uint64_t stale = bound && step > *bound ? step - *bound : 0;
  return std::max(rules_->steps.barrier_at(step), stale);
}

/// The same for the ranks of this machine and the device tier's bound: a machine's ranks can be
/// held closer together than the machines are. What a rank needs of itself is in fresh_enough().
std::uint64_t SliceWeights::needed_of_own(std::uint64_t step) const {
  const auto bound = rules_->consistency.device.max_staleness;
  return bound && step > *bound ? step - *bound : 0;
}

/// The weights for a rank's step among those held; null: they have to be asked for or waited for.
const SliceWeights::Held* SliceWeights::held_for(std::uint32_t rank, std::uint64_t step) const {
  if (lock_step()) {
    // All ranks of the machine get the same: the one reply that was asked for this step.
    for (const auto* held : {&newest_, &previous_}) {
      if (*held && (*held)->step == step) return &**held;
    }
    return nullptr;
  }
  if (rules_->steps.is_barrier(step)) {
    return barrier_ && barrier_->step == step ? &*barrier_ : nullptr;
  }
  return fresh_enough(rank, step);
}

/// Eventual device: the newest weights, if they will do. They must contain the rank's own
/// contributions of all steps before, bound or no bound: without that nothing makes a rank wait for
/// its own gradients, it runs ahead of the servers, and its late sums make training diverge
/// (decision 0010). Then the two bounds.
const SliceWeights::Held* SliceWeights::fresh_enough(std::uint32_t rank, std::uint64_t step) const {
  if (!newest_ || newest_->next[rank] < step) return nullptr;
  if (lowest(newest_->next) < needed_of_all(step)) return nullptr;
  return lowest_own(*newest_) < needed_of_own(step) ? nullptr : &*newest_;
}

// ---- what to ask for ----

std::vector<WeightPull> SliceWeights::desired(const DeviceGather& gather) const {
  std::vector<WeightPull> pulls;
  const auto add = [&](std::optional<WeightPull> pull) {
    if (pull) pulls.push_back(*pull);
  };
  for (const auto& [rank, step] : waiting_) {
    if (held_for(rank, step) == nullptr) add(pull_for_step(step));
  }
  if (!lock_step()) add(pull_newer(gather));
  std::sort(pulls.begin(), pulls.end());
  pulls.erase(std::unique(pulls.begin(), pulls.end()), pulls.end());
  return pulls;
}

/// What is asked for the sake of one step:
/// - both tiers sequential: the version of that number.
/// - a barrier: exactly its version (decision 0008).
/// - else in lock step: the newest that contains the machine's steps before. They are its pushes
///   numbered below `step`, which is why the pull carries the step; repeated for every rank it is
///   still one request, so all ranks of the machine get one answer.
/// - else only what the cluster's bound demands, if the newest held lacks it. The rest, own steps
///   above all, comes with pull_newer(): the owner answers when it has the machine's pushes.
std::optional<WeightPull> SliceWeights::pull_for_step(std::uint64_t step) const {
  if (rules_->sequential()) return WeightPull{slice_, step, 0, step};
  if (rules_->steps.is_barrier(step)) return WeightPull{slice_, kBarrierVersion, step, step};
  const std::uint64_t needed = needed_of_all(step);
  if (lock_step()) return WeightPull{slice_, kNewestVersion, needed, step};
  if (newest_ && lowest(newest_->next) < needed) {
    return WeightPull{slice_, kNewestVersion, needed, 0};
  }
  return std::nullopt;
}

/// Eventual device: what keeps the newest weights fresh. Before the first ones came there is
/// nothing to refresh: the start is a barrier, and its pull brings them.
///
/// Cluster sequential: a push belongs to a version, so a machine that has pushed or abstained for
/// the one it holds needs the next before it can say anything more; and one whose sums are not in
/// it yet has to see them come. Otherwise the version held is good for the next push.
///
/// Cluster eventual: no push needs a version, so newer weights are fetched only for the sake of
/// ranks: when one has asked since the newest came, and the machine has sent something that is not
/// in it. The pull names the number of pushes sent, and its answer contains them all (decision
/// 0010).
std::optional<WeightPull> SliceWeights::pull_newer(const DeviceGather& gather) const {
  if (!newest_) return std::nullopt;
  const bool all_in = contained(*newest_, gather);
  if (rules_->cluster_sequential()) {
    if (all_in && gather.spoken_version() < newest_->version) return std::nullopt;
    return WeightPull{slice_, kNewestVersion, 0, newest_->version + 1};
  }
  if (!asked_ || all_in) return std::nullopt;
  return WeightPull{slice_, kNewestVersion, 0, gather.number()};
}

// ---- what has come ----

base::Status SliceWeights::take(const schemas::WeightReply& reply, const base::Buffer& weight) {
  const std::size_t ranks = rules_->tree.ranks();
  if (rules_->sequential() ? !reply.next.empty() : reply.next.size() != ranks) {
    return base::error(base::Errc::data_loss, "slice ({}, {}) came with {} counts for {} ranks",
                       slice_.key, slice_.slice, reply.next.size(), ranks);
  }
  Held held{reply.version, reply.step, weight, reply.next};
  if (lock_step()) {
    keep_step(std::move(held));
  } else {
    keep_barrier(held);
    keep_newest(std::move(held));
  }
  return {};
}

/// In lock step weights belong to the step that they were asked for, not to their version: the
/// first answer for a step is what all ranks of the machine get, and a repeated pull may be
/// answered again with something newer. The one before stays for a rank whose pull is late.
void SliceWeights::keep_step(Held held) {
  if (newest_ && held.step <= newest_->step) return;
  previous_ = std::exchange(newest_, std::move(held));
  TROUPE_CHECK(!previous_ || previous_->step < newest_->step,
               fmt::format("weights of step {} are kept as newer", newest_->step));
}

/// Eventual device: weights that contain every step below a barrier and nothing later are the
/// barrier's, whichever pull brought them (decision 0008). They are kept beside the newest, since
/// ranks may ask for them long after newer versions have come.
void SliceWeights::keep_barrier(const Held& held) {
  const std::uint64_t step = lowest(held.next);
  const bool nothing_later = std::all_of(held.next.begin(), held.next.end(),
                                         [&](std::uint64_t next) { return next == step; });
  if (!nothing_later || !rules_->steps.is_barrier(step)) return;
  if (barrier_ && barrier_->step >= step) return;
  TROUPE_CHECK(!lock_step(), "a barrier's weights are kept by themselves in lock step");
  barrier_ = held;
  barrier_->step = step;
}

/// Eventual device: the newest version is as good for every step as an older one, or better.
void SliceWeights::keep_newest(Held held) {
  if (newest_ && held.version <= newest_->version) return;
  newest_ = std::move(held);
  asked_ = !waiting_.empty();
  TROUPE_CHECK(!previous_, "weights older than the newest are kept without lock step");
}

/// The promise to a rank, whatever way the weights were found.
void SliceWeights::check_handout(std::uint32_t rank, std::uint64_t step, const Held& held) const {
  const auto last = handed_.find(rank);
  TROUPE_CHECK(last == handed_.end() || last->second <= step,
               fmt::format("rank {} gets weights of step {} after later ones", rank, step));
  if (lock_step()) {
    TROUPE_CHECK(held.step == step,
                 fmt::format("rank {} gets weights of step {} for step {}", rank, held.step, step));
    return;
  }
  TROUPE_CHECK(held.next[rank] >= step,
               fmt::format("rank {} gets weights for step {} that contain its own below step {}",
                           rank, step, held.next[rank]));
  TROUPE_CHECK(lowest(held.next) >= rules_->steps.barrier_at(step),
               fmt::format("rank {} gets weights for step {} in front of a barrier", rank, step));
}

std::optional<Handout> SliceWeights::next_handout() {
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const auto [rank, step] = *at;
    const Held* held = held_for(rank, step);
    if (held == nullptr) continue;
    check_handout(rank, step, *held);
    Handout handout{rank, step, held->version, held->weight, held->next};
    handed_[rank] = step;
    waiting_.erase(at);
    return handout;
  }
  return std::nullopt;
}

}  // namespace troupe::actors
