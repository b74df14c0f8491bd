// SPDX-License-Identifier: Apache-2.0
// Slices of a local store: started, moved on, answered, and looked after where somebody waits.
#include "store/local_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

#include "base/awake_wait.h"
#include "base/log.h"
#include "store/convert.h"

namespace troupe::store {

using ndarray::NDArray;
using schemas::KeyInfo;

namespace {

base::Status check_values(std::span<const KeyInfo> keys, std::span<const NDArray> values) {
  if (!values.empty() && values.size() != keys.size()) {
    return base::error(base::Errc::invalid_argument, "{} values for {} keys", values.size(),
                       keys.size());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].shape() == keys[i].shape && values[i].dtype() == keys[i].dtype) continue;
    return base::error(base::Errc::invalid_argument,
                       "key '{}' has shape {} and dtype {}, its value {} and {}", keys[i].name,
                       keys[i].shape.to_string(), base::dtype_name(keys[i].dtype),
                       values[i].shape().to_string(), base::dtype_name(values[i].dtype()));
  }
  return {};
}

SliceRules rules_of(const LocalStoreOptions& options) {
  const schemas::WorkersSpec& workers = options.workers;
  const AdditionTree tree(workers.machines, workers.devices);
  return {tree, options.consistency, options.steps,
          static_cast<double>(tree.ranks()) * options.batch, machine_of_rank_by_group(workers)};
}

}  // namespace

LocalStore::Core::Core(const LocalStoreParts& parts, const LocalStoreOptions& options)
    : parts_(parts), options_(options), rules_(rules_of(options)), begun_(rules_.tree.ranks()) {}

base::Status LocalStore::Core::declare(std::span<const KeyInfo> keys) {
  if (declared_) {
    if (std::equal(keys.begin(), keys.end(), keys_.begin(), keys_.end())) return {};
    return base::error(base::Errc::invalid_argument, "ranks declare different keys");
  }
  keys_.assign(keys.begin(), keys.end());
  TROUPE_TRY_ASSIGN(layout_, SliceLayout::create(keys_, 1));
  for (const SliceInfo& slice : layout_->slices()) {
    slots_.push_back(std::make_unique<Slot>(rules_, slice));
  }
  declared_ = true;
  return {};
}

base::Status LocalStore::Core::init(std::uint32_t rank, std::span<const KeyInfo> keys,
                                    std::span<const NDArray> values) {
  TROUPE_TRY(check_values(keys, values));
  std::vector<std::vector<std::byte>> given;
  // Before the lock is taken: reading waits for the rank's engine.
  if (rank == 0) {
    for (const NDArray& value : values) {
      given.emplace_back(value.bytes());
      TROUPE_TRY(value.read(given.back()));
    }
  }
  const base::MutexLock lock(mutex_);
  if (begun_[rank]) {
    return base::error(base::Errc::failed_precondition,
                       "rank {} has begun on this store before: a store serves one fit of each "
                       "rank; make another one",
                       rank);
  }
  TROUPE_TRY(failure());
  TROUPE_TRY(declare(keys));
  begun_[rank] = true;
  if (rank == 0) {
    given_ = std::move(given);
    published_ = true;
    changed_.notify_all();
  }
  base::AwakeWait wait{std::chrono::milliseconds(options_.deadline_ms)};
  while (!values.empty() && !published_ && failure().ok() && wait.once(changed_, mutex_)) {
  }
  TROUPE_TRY(failure());
  if (values.empty() || published_) return {};
  return base::error(base::Errc::deadline_exceeded, "rank 0 gave no values within {} ms",
                     options_.deadline_ms);
}

base::Status LocalStore::Core::set_updater(const UpdateRule& rule) {
  const base::MutexLock lock(mutex_);
  if (!declared_) {
    return base::error(base::Errc::failed_precondition, "set_updater before init");
  }
  TROUPE_TRY(failure());
  if (compute_ == nullptr) {
    TROUPE_TRY_ASSIGN(compute_, SliceCompute::create(parts_.table, keys_, rule));
    const JudgeRule judged = judge_rule(rule);
    if (judged.judges()) {
      rules_.judged = true;  // no slice has begun
      const base::MutexLock judging(judge_mutex_);
      facts_.emplace(0, slots_.size());
      judge_.emplace(*layout_, keys_, judged);
    }
    begins_ = start_slices();
  }
  return begins_;
}

base::Status LocalStore::Core::start_slices() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const KeyInfo& key = keys_[slot->info.id.key];
    base::Result<SliceState> state =
        base::error(base::Errc::failed_precondition, "key '{}' has no first values", key.name);
    if (!given_.empty()) {
      const std::size_t begin = slot->info.offset * base::dtype_size(key.dtype);
      TROUPE_TRY_ASSIGN(base::Buffer weight, parts_.pool.allocate(slot->info.bytes, "weights"));
      std::memcpy(weight.data(), given_[key.id].data() + begin, slot->info.bytes);
      state = compute_->first_from(key, std::move(weight), parts_.pool);
    } else if (options_.first) {
      state = options_.first(key, slot->info, *compute_, parts_.pool);
    }
    TROUPE_TRY(state.status());
    const base::MutexLock lock(slot->mutex);
    slot->owner.start(std::move(state).value());
  }
  given_.clear();
  options_.first = nullptr;  // may hold a whole checkpoint
  return {};
}

void LocalStore::Core::push(const SliceInfo& slice, Gradient gradient,
                            const KeyOperationPointer& operation, engine::RunContext& lane) {
  Slot& slot = this->slot(slice);
  const KeyInfo& key = keys_[slice.id.key];
  auto rounded =
      convert(gradient.values, gradient.dtype, key.gradient_wire, parts_.pool, "gradient sums");
  base::Status taken = rounded.status();
  if (taken.ok()) {
    gradient.values = *std::move(rounded);
    taken = take_push(slot, std::move(gradient), operation);
  }
  if (!taken.ok()) operation->slice_done(taken);
  const base::Status status = taken.ok() ? work(slot, lane) : taken;
  if (!status.ok()) fail(status);
}

// When this succeeds the operation is the slot's to end, also by fail().
base::Status LocalStore::Core::take_push(Slot& slot, Gradient gradient,
                                         const KeyOperationPointer& operation) {
  const base::MutexLock lock(slot.mutex);
  TROUPE_TRY(failure());
  SlicePush push;
  push.machine = rules_.machine_of_rank[gradient.rank];
  push.node = rules_.tree.leaf(gradient.rank);
  push.step = gradient.info.step;
  push.count = gradient.info.ready_count();
  push.data = std::move(gradient.values);
  TROUPE_TRY_ASSIGN(const auto result, slot.owner.push(std::move(push)));
  if (result != schemas::PushResult::taken) {
    return base::error(base::Errc::failed_precondition,
                       "key '{}': rank {} pushes step {} out of turn", keys_[slot.info.id.key].name,
                       gradient.rank, gradient.info.step);
  }
  slot.pushes.push_back(operation);
  pushed_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

base::Status LocalStore::Core::failure() const {
  const base::MutexLock lock(failure_mutex_);
  return failure_;
}

// Runs what the slice needs now, and all slices where it brings about a step's verdict. Several
// threads may add for one slice at once, each what it was given.
base::Status LocalStore::Core::work(Slot& first, engine::RunContext& lane) {
  const UpdateContext context{parts_.pool, parts_.kernels, lane};
  std::deque<Slot*> waiting = {&first};
  while (!waiting.empty()) {
    Slot& slot = *waiting.front();
    waiting.pop_front();
    TROUPE_TRY_ASSIGN(const bool judged, advance(slot, context));
    if (!judged) continue;
    for (const std::unique_ptr<Slot>& each : slots_) waiting.push_back(each.get());
  }
  return {};
}

/// True when it has brought about a verdict.
base::Result<bool> LocalStore::Core::advance(Slot& slot, const UpdateContext& context) {
  bool judged = false;
  while (true) {
    std::optional<SliceWork> next;
    std::optional<KeyOperations> contained;
    {
      const base::ReaderLock plan(plan_mutex_);
      const base::MutexLock lock(slot.mutex);
      const std::uint64_t version = slot.owner.state().version;
      next = slot.owner.next_work();
      // A step in which nobody has a sample becomes a version without any work.
      if (slot.owner.state().version != version) contained = std::exchange(slot.pushes, {});
    }
    if (contained) TROUPE_TRY(published(slot, *contained));
    if (next) {
      TROUPE_TRY_ASSIGN(const bool now, perform(slot, *next, context));
      judged = judged || now;
    }
    if (!next && !contained) return judged;
  }
}

base::Result<bool> LocalStore::Core::perform(Slot& slot, SliceWork& work,
                                             const UpdateContext& context) {
  const KeyInfo& key = keys_[slot.info.id.key];
  if (auto* addition = std::get_if<Addition>(&work)) {
    TROUPE_TRY_ASSIGN(base::Buffer sum,
                      compute_->add(key, addition->left, addition->right, context));
    const base::MutexLock lock(slot.mutex);
    slot.owner.added(addition->id, std::move(sum));
    return false;
  }
  if (const auto* examination = std::get_if<SliceExamination>(&work)) {
    return judge(slot, compute_->examine(key, *examination));
  }
  const auto& update = std::get<SliceUpdate>(work);
  TROUPE_TRY_ASSIGN(SliceValues values, compute_->update(key, update, context));
  KeyOperations contained;
  {
    const base::ReaderLock plan(plan_mutex_);
    const base::MutexLock lock(slot.mutex);
    slot.owner.updated(std::move(values));
    // Taken with the version: a push of the next step may come as soon as the lock is free.
    contained.swap(slot.pushes);
  }
  TROUPE_TRY(published(slot, contained));
  return false;
}

base::Result<bool> LocalStore::Core::judge(Slot& slot, const Examined& examined) {
  const base::MutexLock judging(judge_mutex_);
  std::optional<SliceFinding> found;
  {
    const base::MutexLock lock(slot.mutex);
    slot.owner.examined(examined);
    found = slot.owner.take_finding();
  }
  const std::size_t position = layout_->position(slot.info.id);
  TROUPE_TRY_ASSIGN(auto facts, facts_->take(position, found->step, found->count, found->examined));
  if (!facts) return false;
  TROUPE_TRY_ASSIGN(const auto verdict, judge_->take(*std::move(facts)));
  if (verdict->skip) base::log_info("{}", judge_->reason());
  for (const std::unique_ptr<Slot>& each : slots_) {
    const base::MutexLock lock(each->mutex);
    each->owner.judged(*verdict);
  }
  return true;
}

/// After a new version: ends the pushes that it contains, hands in a cut, answers pulls.
base::Status LocalStore::Core::published(Slot& slot, const KeyOperations& contained) {
  for (const KeyOperationPointer& operation : contained) operation->slice_done({});
  TROUPE_TRY(take_cut(slot));
  answer_pulls(slot);
  return {};
}

base::Status LocalStore::Core::take_cut(Slot& slot) {
  std::uint64_t step = 0;
  SliceState state;
  {
    const base::MutexLock lock(slot.mutex);
    if (!slot.owner.cut_due()) return {};
    step = *slot.owner.cut_due();
    state = slot.owner.take_cut();
  }
  std::vector<std::pair<SliceInfo, SliceState>> complete;
  {
    const base::MutexLock lock(mutex_);
    auto& cut = cuts_[step];
    cut.emplace_back(slot.info, std::move(state));
    if (cut.size() < slots_.size()) return {};
    complete = std::move(cut);
    cuts_.erase(step);
    cutting_ = step;
  }
  std::sort(complete.begin(), complete.end(),
            [](const auto& a, const auto& b) { return a.first.id < b.first.id; });
  base::Status written = options_.cut ? options_.cut(step, std::move(complete)) : base::Status();
  const base::MutexLock lock(mutex_);
  cutting_.reset();
  return written;
}

/// No slice comes to another version meanwhile. A slice at version v has at most the update to v +
/// 1 under way, so none has come to two steps behind the furthest.
std::optional<std::uint64_t> LocalStore::Core::cut_soon() {
  {
    const base::MutexLock lock(mutex_);
    if (compute_ == nullptr) return std::nullopt;
  }
  const base::WriterLock plan(plan_mutex_);
  if (extra_cut_) return extra_cut_;
  std::uint64_t furthest = rules_.steps.start;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const base::MutexLock lock(slot->mutex);
    if (!slot->owner.started()) return std::nullopt;
    furthest = std::max(furthest, slot->owner.state().version);
  }
  const std::uint64_t step = std::min(furthest + 2, rules_.steps.total);
  if (rules_.steps.add_cut(step)) extra_cut_ = step;
  return extra_cut_;
}

void LocalStore::Core::pull(const SliceInfo& slice, const WaitingPull& waiting) {
  Slot& slot = this->slot(slice);
  base::Status failed;
  {
    const base::MutexLock lock(slot.mutex);
    failed = failure();  // asked under the slot's lock: fail() either is seen or sees the pull
    if (failed.ok()) slot.pulls.push_back(waiting);
  }
  if (failed.ok()) {
    answer_pulls(slot);
  } else {
    waiting.operation->slice_done(failed);
  }
}

void LocalStore::Core::answer_pulls(Slot& slot) {
  std::vector<Reply> replies;
  {
    const base::MutexLock lock(slot.mutex);
    for (auto waiting = slot.pulls.begin(); waiting != slot.pulls.end();) {
      auto answer = slot.owner.answer(waiting->pull, 0);
      if (!answer) {
        ++waiting;
        continue;
      }
      replies.push_back({std::move(*answer), std::move(*waiting)});
      waiting = slot.pulls.erase(waiting);
    }
  }
  for (Reply& each : replies) reply(each);
}

void LocalStore::Core::reply(Reply& reply) const {
  const SliceAnswer& answer = reply.answer;
  if (answer.code != base::Errc::ok) {
    reply.waiting.operation->slice_done(base::Status(answer.code, answer.text));
    return;
  }
  const schemas::SliceId& slice = reply.waiting.pull.slice;
  TROUPE_CHECK(answer.weight.size() == layout_->info(slice).weight_bytes, "weight of another size");
  reply.waiting.arrival->slices()[slice.slice] = answer.weight;
  reply.waiting.operation->slice_done({});
}

void LocalStore::Core::fail(const base::Status& status) {
  {
    const base::MutexLock lock(failure_mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
  }
  std::vector<Slot*> slots;  // a rank may be declaring them
  {
    const base::MutexLock lock(mutex_);
    for (const std::unique_ptr<Slot>& slot : slots_) slots.push_back(slot.get());
    changed_.notify_all();
  }
  for (Slot* const slot : slots) {
    KeyOperations waiting;
    {
      const base::MutexLock lock(slot->mutex);
      waiting.swap(slot->pushes);
      for (WaitingPull& pull : slot->pulls) waiting.push_back(std::move(pull.operation));
      slot->pulls.clear();
    }
    for (const KeyOperationPointer& operation : waiting) operation->slice_done(status);
  }
}

// ---- a rank that is waited for ----

namespace {

constexpr std::uint64_t kLooksPerDeadline = 10;

}  // namespace

/// Time is counted in looks, so a process that was stopped for a while blames nobody.
void LocalStore::Core::watch() {
  const std::uint64_t shortest = std::min(options_.deadline_ms, options_.stall_ms);
  const std::uint64_t look_ms = std::clamp<std::uint64_t>(shortest / kLooksPerDeadline, 1, 1'000);
  std::uint64_t silent_ms = 0;
  std::uint64_t pushed = 0;
  while (true) {
    {
      const base::MutexLock lock(mutex_);
      const auto ended = [this]() TROUPE_REQUIRES(mutex_) { return watch_ended_; };
      if (changed_.wait_for(mutex_, std::chrono::milliseconds(look_ms), ended)) return;
    }
    const std::uint64_t now = pushed_.load(std::memory_order_relaxed);
    const std::string waiting = waits_for();
    silent_ms = now != pushed || waiting.empty() ? 0 : silent_ms + look_ms;
    pushed = now;
    const std::vector<std::uint32_t> absent = absent_ranks();
    if (!absent.empty() && silent_ms >= options_.deadline_ms) {
      return fail(base::error(base::Errc::deadline_exceeded,
                              "rank{} {} did not begin within {} ms, others wait",
                              absent.size() == 1 ? "" : "s", fmt::join(absent, ", "), silent_ms));
    }
    if (silent_ms >= options_.stall_ms) {
      return fail(base::error(base::Errc::deadline_exceeded, "nothing was pushed for {} ms: {}",
                              silent_ms, waiting));
    }
  }
}

void LocalStore::Core::end_watch() {
  const base::MutexLock lock(mutex_);
  watch_ended_ = true;
  changed_.notify_all();
}

std::vector<std::uint32_t> LocalStore::Core::absent_ranks() {
  const base::MutexLock lock(mutex_);
  std::vector<std::uint32_t> absent;
  for (std::uint32_t rank = 0; rank < begun_.size(); ++rank) {
    if (!begun_[rank]) absent.push_back(rank);
  }
  return absent;
}

/// Of the first slice that somebody waits for, as text; empty: nobody waits.
std::string LocalStore::Core::waits_for() {
  {
    const base::MutexLock lock(mutex_);
    if (compute_ == nullptr) return {};  // no slice has begun
    if (cutting_) return fmt::format("the checkpoint of step {} is being written", *cutting_);
  }
  std::string verdict;  // of a slice that waits for others, which say more
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const base::MutexLock lock(slot->mutex);
    if (slot->pushes.empty() && slot->pulls.empty()) continue;
    if (!slot->owner.waits_for_verdict()) return slot->owner.waits_for();
    verdict = slot->owner.waits_for();
  }
  return verdict;
}

}  // namespace troupe::store
