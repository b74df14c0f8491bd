// SPDX-License-Identifier: Apache-2.0
// The owner's bookkeeping: taking pushes once, forming rounds, publishing versions.
#include "store/slice_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::store {
namespace {

using base::Errc;
using schemas::PushResult;

}  // namespace

SliceOwner::SliceOwner(const SliceRules& rules, schemas::SliceId id)
    : rules_(&rules),
      id_(id),
      machine_tree_(std::max(1U, rules.machines()), 1),
      sum_(rules.device_sequential() ? rules.tree : machine_tree_),
      taken_(rules.tree.ranks(), rules.steps.start),
      next_(taken_),
      end_(rules.tree.ranks(), kNoStep),
      samples_before_(rules.tree.ranks()) {
  TROUPE_CHECK(rules.machine_of_rank.size() == rules.tree.ranks(), "a rank without a machine");
  // A machine's running number is the step where it sends one push per step.
  const std::uint64_t first = rules.device_sequential() ? rules.steps.start : 0;
  numbers_.assign(machine_tree_.ranks(), first);
  numbers_applied_ = numbers_;
}

void SliceOwner::start(SliceState first) {
  TROUPE_CHECK(!started_, "a slice is started twice");
  TROUPE_CHECK(first.values.weight, "a slice starts without weights");
  started_ = true;
  current_ = std::move(first);
  current_.version = rules_->steps.start;
  applied_below_ = barrier_step_ = rules_->steps.start;
  if (!rules_->sequential()) barrier_ = present();
  if (rules_->sequential()) open_step();
}

SliceOwner::Taking SliceOwner::push(SlicePush push) {
  if (!started_) return std::optional(PushResult::not_ready);
  if (push.machine >= machine_tree_.ranks()) {
    return base::error(Errc::invalid_argument, "[{}] push of machine {}, which holds no rank",
                       name(), push.machine);
  }
  if (push.abstains) return abstain(push);
  if (!rules_->cluster_sequential()) return push_arrival(push);
  return rules_->device_sequential() ? push_to_step(push) : push_to_round(push);
}

SliceOwner::Taking SliceOwner::push_to_step(SlicePush& push) {
  if (!rules_->tree.contains(push.node)) {
    return base::error(Errc::invalid_argument, "[{}] push of a node ({}, {}, {}-{}) of no tree",
                       name(), push.node.level, push.node.group, push.node.begin, push.node.end);
  }
  if (push.step > current_.version + 1) return std::optional(PushResult::not_ready);
  if (push.step > current_.version) {
    next_pushes_.emplace(name_of(push), std::move(push));
    return std::optional<PushResult>();
  }
  // While the step's update runs, everything of this step has been taken.
  TROUPE_CHECK(!updating_ || sum_.total() != nullptr, "an update runs on an incomplete step");
  const bool past = push.step < current_.version || updating_;
  const bool taken = !past && sum_.offer(push.node, std::move(push.data), push.count);
  return std::optional(taken ? PushResult::taken : PushResult::duplicate);
}

SliceOwner::Taking SliceOwner::push_to_round(SlicePush& push) {
  if (push.step > current_.version) return std::optional(PushResult::not_ready);
  TROUPE_TRY(check_sums(push));
  const PushName push_name = name_of(push);
  if (next_pushes_.count(push_name) != 0) return std::optional<PushResult>();
  if (duplicate(push_name)) return std::optional(PushResult::duplicate);
  const auto waits = [&](const auto& entry) { return entry.first.sender == push.machine; };
  if (std::any_of(next_pushes_.begin(), next_pushes_.end(), waits)) {
    return base::error(Errc::internal, "[{}] push {} of machine {} while another one waits", name(),
                       push.step, push.machine);
  }
  TROUPE_TRY(take_contributions(push));
  // A closed round may be with the updater already, and a machine is one leaf of a round's tree. So
  // this push belongs to the next round. Its sender gets no acknowledgement until that one opens
  // and sends nothing else until then: at most one push per machine waits here.
  if (closed_ || pushed_.count(push.machine) != 0) {
    next_pushes_.emplace(push_name, std::move(push));
    return std::optional<PushResult>();
  }
  join_round(push);
  return std::optional(PushResult::taken);
}

/// Under an eventual tier a push says what it sums: without that nobody would know what the weights
/// contain.
base::Status SliceOwner::check_sums(const SlicePush& push) const {
  if (!push.contributions.empty()) return {};
  return base::error(Errc::invalid_argument, "[{}] push {} of machine {} sums nothing", name(),
                     push.step, push.machine);
}

/// The open round goes on without the machine, unless its push comes after all. Why machines
/// abstain: slices collect contributions differently, so without it two slices' rounds could wait
/// for each other's machines for ever (decision 0008).
SliceOwner::Taking SliceOwner::abstain(const SlicePush& push) {
  if (!rules_->has_abstentions()) {
    return base::error(Errc::invalid_argument,
                       "[{}] machine {} abstains, which is known only to device eventual, cluster "
                       "sequential",
                       name(), push.machine);
  }
  if (push.data || push.count != 0.0 || !push.contributions.empty()) {
    return base::error(Errc::invalid_argument,
                       "[{}] machine {} abstains with {} bytes, count {} and {} contributions",
                       name(), push.machine, push.data.size(), push.count,
                       push.contributions.size());
  }
  if (push.step > current_.version) return std::optional(PushResult::not_ready);
  if (push.step == current_.version && !closed_) abstained_.insert(push.machine);
  return std::optional(PushResult::taken);
}

std::optional<PushResult> SliceOwner::asked(const PushName& name) const {
  constexpr auto kTaken = PushResult::duplicate;
  if (!started_ || name.sender >= numbers_.size()) return PushResult::unknown;
  if (next_pushes_.count(name) != 0) return std::nullopt;
  if (rules_->sequential()) {
    if (name.step != current_.version || updating_) {
      return name.step <= current_.version ? kTaken : PushResult::unknown;
    }
    return rules_->tree.contains(name.node) && sum_.has(name.node) ? kTaken : PushResult::unknown;
  }
  if (name.node.begin == name.node.end) {  // an abstention
    const bool open = name.step == current_.version && !closed_;
    if (open) return abstained_.count(name.sender) != 0 ? kTaken : PushResult::unknown;
    return name.step <= current_.version ? kTaken : PushResult::unknown;
  }
  if (!duplicate(name)) return PushResult::unknown;
  const bool waits = std::any_of(queue_.begin(), queue_.end(),
                                 [&](const Round& round) { return round.name == name; });
  return waits ? std::nullopt : std::optional(kTaken);
}

PushName SliceOwner::name_of(const SlicePush& push) const {
  return {id_, push.machine, push.node, push.step};
}

bool SliceOwner::duplicate(const PushName& name) const {
  return name.step < numbers_[name.sender];
}

/// The push's contributions have been taken.
void SliceOwner::join_round(SlicePush& push) {
  TROUPE_CHECK(!closed_, "a push joins a closed round");
  numbers_[push.machine] = push.step + 1;
  const bool is_new = pushed_.insert(push.machine).second;
  const bool held = sum_.offer(machine_tree_.leaf(push.machine), std::move(push.data), push.count);
  TROUPE_CHECK(is_new && held, "a machine joins a round twice");
  round_contributions_.insert(round_contributions_.end(), push.contributions.begin(),
                              push.contributions.end());
}

SliceOwner::Taking SliceOwner::push_arrival(SlicePush& push) {
  TROUPE_TRY(check_sums(push));
  const PushName name = name_of(push);
  std::uint64_t& number = numbers_[push.machine];
  if (push.step > number) return std::optional(PushResult::not_ready);
  if (duplicate(name)) {
    const bool waits = std::any_of(queue_.begin(), queue_.end(),
                                   [&](const Round& round) { return round.name == name; });
    return waits ? std::nullopt : std::optional(PushResult::duplicate);
  }
  TROUPE_TRY(take_contributions(push));
  TROUPE_CHECK(number >= numbers_applied_[push.machine], "a push is applied before it is taken");
  ++number;
  std::uint64_t lowest = kNoStep;
  for (const auto& contribution : push.contributions) lowest = std::min(lowest, contribution.step);
  queue_.push_back({std::move(push.data), push.count, lowest, std::move(push.contributions), name});
  return std::optional<PushResult>();
}

/// Each rank's steps must come in order, each once, and none beyond the next barrier: senders see
/// to that, so anything else is a defect that must not reach the weights.
base::Status SliceOwner::take_contributions(const SlicePush& push) {
  const std::uint64_t limit = rules_->steps.barrier_after(applied_below_);
  for (const auto& [rank, step] : push.contributions) {
    if (rank >= taken_.size()) {
      return base::error(Errc::invalid_argument, "[{}] contribution of rank {} of {}", name(), rank,
                         taken_.size());
    }
    if (step != taken_[rank] || step >= limit) {
      return base::error(Errc::internal,
                         "[{}] contribution of rank {} step {}, expected step {} below barrier {}",
                         name(), rank, step, taken_[rank], limit);
    }
    ++taken_[rank];
  }
  return {};
}

/// Sequential: takes what has come for this step already, and the part of ranks that have finished
/// as nothing.
void SliceOwner::open_step() {
  if (updating_) return;
  if (!next_pushes_.empty() && next_pushes_.begin()->second.step == current_.version) {
    for (auto& [name, push] : std::exchange(next_pushes_, {})) {
      sum_.offer(push.node, std::move(push.data), push.count);
      acks_.push_back(name);
    }
  }
  std::vector<std::uint32_t> absent;
  for (std::uint32_t rank = 0; rank < end_.size(); ++rank) {
    if (end_[rank] <= current_.version) absent.push_back(rank);
  }
  if (absent.size() == end_.size()) return;  // nobody is left: no further steps
  for (const std::uint32_t rank : absent) sum_.offer(rules_->tree.leaf(rank), {}, 0.0);
}

/// A new round, with the pushes that came too late for the last.
void SliceOwner::open_round() {
  closed_ = false;
  pushed_.clear();
  abstained_.clear();
  for (auto& [name, push] : std::exchange(next_pushes_, {})) {
    join_round(push);
    acks_.push_back(name);
  }
}

/// Closes the round when nobody is waited for any more (decision 0008). Rounds exist under an
/// eventual device tier and a sequential cluster tier only. Three rules say when:
/// - It needs one push. A round without any would make a new version of the same weights, and then
///   another one, for ever.
/// - It does not wait for a machine whose ranks have contributed all steps before the next barrier.
///   They go on when the barrier is reached, and the barrier may need this very round.
/// - It does not wait for a machine that abstains. All ranks of that machine wait for weights
///   of other slices, and the rounds of those slices may wait for machines that wait for this one.
///   Slices collect contributions differently, so such circles do happen; the simulator found one.
/// A machine that is not in the round is a leaf without data: the order of additions stays the
/// tree's, and no zero is added in the machine's place.
void SliceOwner::close_round() {
  if (closed_ || pushed_.empty()) return;
  std::vector<std::uint32_t> absent;
  for (std::uint32_t machine = 0; machine < machine_tree_.ranks(); ++machine) {
    if (pushed_.count(machine) != 0) continue;
    if (abstained_.count(machine) == 0 && !has_come_to_barrier(machine)) return;
    absent.push_back(machine);
  }
  closed_ = true;
  for (const std::uint32_t machine : absent) {
    const bool held = sum_.offer(machine_tree_.leaf(machine), {}, 0.0);
    TROUPE_CHECK(held, "a machine is absent from a round and in it");
  }
}

/// True when the machine's ranks have no further steps before the next barrier.
bool SliceOwner::has_come_to_barrier(std::uint32_t machine) const {
  const std::uint64_t limit = rules_->steps.barrier_after(applied_below_);
  for (std::uint32_t rank = 0; rank < taken_.size(); ++rank) {
    if (rules_->machine_of_rank[rank] == machine && taken_[rank] < std::min(limit, end_[rank])) {
      return false;
    }
  }
  return true;
}

std::optional<SliceOwner::Round> SliceOwner::next_round() {
  if (!rules_->cluster_sequential()) {
    if (queue_.empty()) return std::nullopt;
    Round round = std::move(queue_.front());
    queue_.pop_front();
    acks_.push_back(*round.name);
    return round;
  }
  const SumPart* total = sum_.total();
  if (total == nullptr) return std::nullopt;
  Round round{total->data, total->count, current_.version, std::move(round_contributions_), {}};
  round_contributions_.clear();
  if (!rules_->device_sequential()) {
    TROUPE_CHECK(closed_, "a round ends that others may still join");
    round.step = kNoStep;
    for (const auto& [rank, step] : round.contributions) round.step = std::min(round.step, step);
  }
  return round;
}

std::optional<SliceWork> SliceOwner::next_work() {
  if (started_ && !rules_->device_sequential() && rules_->cluster_sequential()) close_round();
  while (true) {
    if (auto addition = sum_.next_addition()) return SliceWork(std::move(*addition));
    if (!started_ || updating_ || cut_due_) return std::nullopt;
    if (waiting_ && !has_verdict_) return std::nullopt;
    std::optional<Round> round = waiting_ ? std::exchange(waiting_, std::nullopt) : next_round();
    if (!round) return std::nullopt;
    if (rules_->judged && round->has_samples() && !std::exchange(has_verdict_, false)) {
      waiting_ = std::move(round);
      return SliceWork(SliceExamination{current_.values, waiting_->sum});
    }
    if (!round->has_samples()) {
      // Nobody had a sample, though somebody may have sent zeros: a new version with the same bits,
      // so that counting goes on.
      publish(current_.values, false, *round);
      continue;
    }
    previous_.reset();
    updating_ = std::move(round);
    SliceUpdate update;
    update.from = current_;
    update.gradient = updating_->sum;
    update.count = updating_->count;
    update.share = rules_->sequential() ? 1.0 : updating_->count / rules_->nominal_count;
    update.delay = delay_of(*updating_);
    update.step = updating_->step;
    update.contributions = updating_->contributions;
    update.verdict = updating_->verdict;
    return SliceWork(std::move(update));
  }
}

void SliceOwner::examined(const Examined& examined) {
  TROUPE_CHECK(waiting_ && !has_verdict_, "an examination ends that never began");
  finding_ = SliceFinding{waiting_->step, waiting_->count, examined};
}

void SliceOwner::judged(const schemas::StepVerdict& verdict) {
  TROUPE_CHECK(
      waiting_ && !has_verdict_ && waiting_->step == verdict.step,
      fmt::format("[{}] a verdict on step {}, which was not asked for", name(), verdict.step));
  waiting_->verdict = verdict;
  has_verdict_ = true;
}

void SliceOwner::updated(SliceValues values) {
  TROUPE_CHECK(updating_.has_value(), "an update ends that never began");
  const Round round = std::move(*updating_);
  updating_.reset();
  publish(std::move(values), !round.verdict.skip, round);
}

void SliceOwner::publish(SliceValues values, bool counts, const Round& round) {
  TROUPE_CHECK(!updating_, "a version is published while the next one is being computed");
  TROUPE_CHECK(!cut_due_, "a version replaces one that a checkpoint still needs");
  previous_ = present();
  current_ = {std::move(values), current_.version + 1, current_.updates + (counts ? 1 : 0)};
  if (rules_->cluster_sequential()) sum_.clear();
  advance(round);
  if (rules_->sequential()) {
    open_step();
  } else if (rules_->cluster_sequential()) {
    open_round();
    close_round();
  }
}

/// How late a sum is, for SliceUpdate::delay (decision 0010). With momentum, a gradient that is
/// applied even one round late makes a large rate diverge; so the rate is divided by 1 + delay. No
/// message says from which weights a gradient was computed. But a rank's weights contain all its
/// own earlier steps, so they are at least as new as the version that contained its last
/// contribution, and samples_before_ says how many samples the slice had seen by then. The samples
/// applied since are the most that the rank can have missed. A sum is as late as its latest rank.
/// The delay is 0 after a barrier, since all ranks begin with the barrier's version (see
/// advance()), and where every sum contains all ranks. Divided by the nominal count it is a number
/// of whole steps.
double SliceOwner::delay_of(const Round& round) const {
  double samples = 0.0;
  for (const auto& contribution : round.contributions) {
    samples = std::max(samples, samples_applied_ - samples_before_[contribution.rank]);
  }
  return samples / rules_->nominal_count;
}

/// What the new version contains; whether it is a barrier's. Exactly once is decided where pushes
/// are taken; here each contribution must be the very next one of its rank.
void SliceOwner::advance(const Round& round) {
  if (rules_->sequential()) std::fill(next_.begin(), next_.end(), current_.version);
  for (const auto& [rank, step] : round.contributions) {
    TROUPE_CHECK(step == next_[rank], "a contribution enters the weights out of turn");
    next_[rank] = step + 1;
  }
  samples_applied_ += round.count;
  for (const auto& contribution : round.contributions) {
    samples_before_[contribution.rank] = samples_applied_;
  }
  if (round.name) {
    std::uint64_t& applied = numbers_applied_[round.name->sender];
    TROUPE_CHECK(round.name->step == applied, "pushes of a machine are applied out of order");
    ++applied;
    applied_.insert(round.name->sender);
  }
  const std::uint64_t before = applied_below_;
  applied_below_ = rules_->steps.total;
  for (std::size_t rank = 0; rank < next_.size(); ++rank) {
    if (next_[rank] < end_[rank]) applied_below_ = std::min(applied_below_, next_[rank]);
  }
  TROUPE_CHECK(applied_below_ >= before, "weights lose contributions");
  if (applied_below_ <= barrier_step_) return;
  // Every rank has contributed past the last barrier, so it has had the barrier's weights, and
  // nobody asks for them again.
  barrier_ = {};
  if (!rules_->steps.is_barrier(applied_below_)) return;
  barrier_step_ = applied_below_;
  std::fill(samples_before_.begin(), samples_before_.end(), samples_applied_);
  if (!rules_->sequential()) barrier_ = present();
  if (rules_->steps.is_cut(barrier_step_)) cut_due_ = barrier_step_;
}

std::vector<PushName> SliceOwner::take_acks() {
  return std::exchange(acks_, {});
}

std::optional<SliceAnswer> SliceOwner::answer(const schemas::WeightPull& pull,
                                              std::uint32_t machine) const {
  if (needs(pull, machine)) return std::nullopt;
  const auto with = [this](const Published& version) {
    SliceAnswer answer;
    answer.version = version.version;
    answer.weight = version.weight;
    if (!rules_->sequential()) answer.next = version.next;
    return answer;
  };
  const auto gone = [&] {
    SliceAnswer answer;
    answer.code = Errc::not_found;
    answer.text = fmt::format("[{}] version {} (barrier {}) is gone, the newest is {}", name(),
                              pull.version, pull.applied_below, current_.version);
    return answer;
  };
  if (pull.version == schemas::kBarrierVersion) {
    const bool kept = pull.applied_below == barrier_step_ && barrier_.weight;
    return kept ? with(barrier_) : gone();
  }
  const bool newest = pull.version == schemas::kNewestVersion;
  if (newest || pull.version == current_.version) return with(present());
  if (previous_ && previous_->version == pull.version) return with(*previous_);
  return gone();
}

std::optional<PullNeed> SliceOwner::needs(const schemas::WeightPull& pull,
                                          std::uint32_t machine) const {
  using Kind = PullNeed::Kind;
  const auto unmet = [this](PullNeed need) {
    return meets(need) ? std::nullopt : std::optional(need);
  };
  if (!started_) return PullNeed{Kind::version, 0, rules_->steps.start};
  if (pull.version == schemas::kBarrierVersion) {
    return unmet({Kind::barrier, 0, pull.applied_below});
  }
  if (pull.version != schemas::kNewestVersion) return unmet({Kind::version, 0, pull.version});
  const bool known = machine < numbers_applied_.size();
  std::optional<PullNeed> recent;
  if (rules_->cluster_sequential()) {
    recent = unmet({Kind::version, 0, pull.step});
  } else if (known) {
    recent = unmet({Kind::pushes, machine, pull.step});
  }
  return recent ? recent : unmet({Kind::steps, 0, pull.applied_below});
}

bool SliceOwner::meets(const PullNeed& need) const {
  if (!started_) return false;
  switch (need.kind) {
    case PullNeed::Kind::version:
      return current_.version >= need.value;
    case PullNeed::Kind::barrier:
      return barrier_step_ >= need.value;
    case PullNeed::Kind::steps:
      return applied_below_ >= need.value;
    case PullNeed::Kind::pushes:
      return numbers_applied_.at(need.machine) >= need.value;
  }
  return false;
}

void SliceOwner::finish(std::uint32_t rank, std::uint64_t steps) {
  if (rank >= end_.size()) return;
  const std::uint64_t before = std::exchange(end_[rank], std::min(end_[rank], steps));
  if (!started_ || !rules_->sequential() || updating_) return;  // else where the step opens
  const auto absent = [this](std::uint64_t end) { return end <= current_.version; };
  if (absent(before) || !absent(end_[rank]) || std::ranges::all_of(end_, absent)) return;
  sum_.offer(rules_->tree.leaf(rank), {}, 0.0);
}

std::optional<std::uint64_t> SliceOwner::cut_due() const {
  return cut_due_;
}

SliceState SliceOwner::take_cut() {
  TROUPE_CHECK(cut_due_.has_value(), "no checkpoint is due");
  TROUPE_CHECK(!updating_, "a checkpoint is taken while its weights are being replaced");
  cut_due_.reset();
  SliceState cut = current_;
  cut.values.rounded = {};  // nobody writes it
  return cut;
}

std::string SliceOwner::name() const {
  return fmt::format("slice ({}, {})", id_.key, id_.slice);
}

std::vector<std::uint32_t> SliceOwner::missing_ranks() const {
  if (!started_ || cut_due_ || updating_ || waiting_ || !rules_->cluster_sequential()) return {};
  if (rules_->device_sequential()) return sum_.missing();
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t machine : sum_.missing()) {
    const auto of_machine = rules_->ranks_of_machine(machine);
    ranks.insert(ranks.end(), of_machine.begin(), of_machine.end());
  }
  return ranks;
}

std::string SliceOwner::waits_for() const {
  if (!started_) return fmt::format("{} waits for its first values", name());
  if (cut_due_) return fmt::format("{} waits for a checkpoint to end", name());
  if (updating_) return fmt::format("{} waits for its updater", name());
  if (waiting_) {
    return fmt::format("{} waits for the verdict on step {}", name(), current_.version);
  }
  if (!rules_->cluster_sequential()) {
    return fmt::format("{} at version {} waits for any contribution", name(), current_.version);
  }
  return fmt::format("{} of {} {} waits for {} {}", name(),
                     rules_->device_sequential() ? "step" : "round", current_.version,
                     rules_->device_sequential() ? "ranks" : "machines",
                     fmt::join(sum_.missing(), ", "));
}

}  // namespace troupe::store
