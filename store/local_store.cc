// SPDX-License-Identifier: Apache-2.0
// The shared core of a local store, and the rank stores that turn calls into engine operations.
#include "store/local_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "ndarray/prepared_kernels.h"
#include "store/convert.h"
#include "store/key_operation.h"
#include "store/slice_compute.h"
#include "store/slice_layout.h"
#include "store/slice_rules.h"
#include "store/slice_values.h"

namespace troupe::store {

using ndarray::NDArray;
using schemas::KeyInfo;

namespace {

struct WaitingPull {
  schemas::WeightPull pull;
  std::span<std::byte> place;
  KeyOperationPointer operation;
};

struct Reply {
  SliceAnswer answer;
  WaitingPull waiting;
};

// A slice with everybody who waits for it.
struct Slot {
  Slot(const SliceRules& rules, const SliceInfo& the_info)
      : info(the_info), owner(rules, info.id) {}

  const SliceInfo info;
  base::Mutex mutex;
  SliceOwner owner TROUPE_GUARDED_BY(mutex);
  // Gradients of the open step: their bytes are read until its update is done.
  KeyOperations pushes TROUPE_GUARDED_BY(mutex);
  std::list<WaitingPull> pulls TROUPE_GUARDED_BY(mutex);
};

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

class LocalStore::Core {
 public:
  Core(const LocalStoreParts& parts, const LocalStoreOptions& options)
      : parts_(parts), options_(options), rules_(rules_of(options)), begun_(rules_.tree.ranks()) {}

  std::uint32_t ranks() const { return rules_.tree.ranks(); }
  std::span<const SliceInfo> slices(std::uint32_t key) const { return layout_->of_key(key); }

  base::Status init(std::uint32_t rank, std::span<const KeyInfo> keys,
                    std::span<const NDArray> values);
  base::Status set_updater(const UpdateRule& rule);
  void push(const SliceInfo& slice, std::uint32_t rank, const PushInfo& info, base::Buffer gradient,
            const KeyOperationPointer& operation, engine::RunContext& lane);
  void pull(const SliceInfo& slice, const WaitingPull& waiting);
  std::optional<std::uint64_t> cut_soon();
  void fail(const base::Status& status);
  base::Status failure() const;
  /// Fails the store when a rank is waited for too long; returns after end_watch().
  void watch();
  void end_watch();

 private:
  Slot& slot(const SliceInfo& slice) { return *slots_[layout_->position(slice.id)]; }
  base::Status declare(std::span<const KeyInfo> keys);
  base::Status start_slices();
  base::Status take_push(Slot& slot, std::uint32_t rank, const PushInfo& info,
                         base::Buffer gradient, const KeyOperationPointer& operation);
  base::Status work(Slot& slot, engine::RunContext& lane);
  base::Status perform(Slot& slot, SliceWork& work, const UpdateContext& context);
  base::Status published(Slot& slot, const KeyOperations& contained);
  base::Status take_cut(Slot& slot);
  void answer_pulls(Slot& slot);
  void reply(Reply& reply) const;
  std::vector<std::uint32_t> absent_ranks();
  std::string waits_for();

  const LocalStoreParts parts_;
  LocalStoreOptions options_;  // `first` goes with the first values, all else stays
  SliceRules rules_;           // its plan of steps changes in cut_soon() alone
  // Held to read while a slice comes to another version, which looks at that plan; before
  // Slot::mutex.
  base::SharedMutex plan_mutex_;
  std::optional<std::uint64_t> extra_cut_ TROUPE_GUARDED_BY(plan_mutex_);

  mutable base::Mutex failure_mutex_;
  base::Status failure_ TROUPE_GUARDED_BY(failure_mutex_);
  base::Mutex mutex_;  // over everything below; the functions that set it up are called under it
  base::CondVar changed_;
  bool published_ = false;                    // rank 0 has called init
  std::vector<KeyInfo> keys_;                 // set once, before any push
  std::optional<SliceLayout> layout_;         // likewise
  std::vector<std::unique_ptr<Slot>> slots_;  // likewise
  std::unique_ptr<SliceCompute> compute_;     // likewise
  bool declared_ = false;
  std::vector<bool> begun_;  // by rank: it has called init
  bool watch_ended_ = false;
  std::atomic<std::uint64_t> pushed_{0};       // slices taken from any rank; no order needed
  std::vector<std::vector<std::byte>> given_;  // rank 0's values by key
  std::map<std::uint64_t, std::vector<std::pair<SliceInfo, SliceState>>> cuts_;
};

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
  TROUPE_TRY(declare(keys));
  begun_[rank] = true;
  if (rank == 0) {
    given_ = std::move(given);
    published_ = true;
    changed_.notify_all();
  }
  const auto deadline = std::chrono::milliseconds(options_.deadline_ms);
  const bool known =
      values.empty() || changed_.wait_for(mutex_, deadline, [this] { return published_; });
  if (known) return {};
  return base::error(base::Errc::deadline_exceeded, "rank 0 gave no values within {} ms",
                     options_.deadline_ms);
}

base::Status LocalStore::Core::set_updater(const UpdateRule& rule) {
  const base::MutexLock lock(mutex_);
  if (!declared_) {
    return base::error(base::Errc::failed_precondition, "set_updater before init");
  }
  if (compute_ == nullptr) {
    TROUPE_TRY_ASSIGN(compute_, SliceCompute::create(parts_.table, keys_, rule));
    TROUPE_TRY(start_slices());
  }
  return {};
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

void LocalStore::Core::push(const SliceInfo& slice, std::uint32_t rank, const PushInfo& info,
                            base::Buffer gradient, const KeyOperationPointer& operation,
                            engine::RunContext& lane) {
  Slot& slot = this->slot(slice);
  const KeyInfo& key = keys_[slice.id.key];
  auto rounded = convert(gradient, key.dtype, key.gradient_wire, parts_.pool, "gradient sums");
  const base::Status taken =
      rounded.ok() ? take_push(slot, rank, info, *std::move(rounded), operation) : rounded.status();
  if (!taken.ok()) operation->slice_done(taken);
  const base::Status status = taken.ok() ? work(slot, lane) : taken;
  if (!status.ok()) fail(status);
}

// When this succeeds the operation is the slot's to end, also by fail().
base::Status LocalStore::Core::take_push(Slot& slot, std::uint32_t rank, const PushInfo& info,
                                         base::Buffer gradient,
                                         const KeyOperationPointer& operation) {
  const base::MutexLock lock(slot.mutex);
  TROUPE_TRY(failure());
  SlicePush push;
  push.machine = rules_.machine_of_rank[rank];
  push.node = rules_.tree.leaf(rank);
  push.step = info.step;
  push.count = info.count;
  push.data = std::move(gradient);
  TROUPE_TRY_ASSIGN(const auto result, slot.owner.push(std::move(push)));
  if (result != schemas::PushResult::taken) {
    return base::error(base::Errc::failed_precondition,
                       "key '{}': rank {} pushes step {} out of turn", keys_[slot.info.id.key].name,
                       rank, info.step);
  }
  slot.pushes.push_back(operation);
  pushed_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

base::Status LocalStore::Core::failure() const {
  const base::MutexLock lock(failure_mutex_);
  return failure_;
}

// Runs what the slice needs now. Several threads may add for one slice at once, each what it was
// given.
base::Status LocalStore::Core::work(Slot& slot, engine::RunContext& lane) {
  const UpdateContext context{parts_.pool, parts_.kernels, lane};
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
    if (next) TROUPE_TRY(perform(slot, *next, context));
    if (!next && !contained) return {};
  }
}

base::Status LocalStore::Core::perform(Slot& slot, SliceWork& work, const UpdateContext& context) {
  const KeyInfo& key = keys_[slot.info.id.key];
  if (auto* addition = std::get_if<Addition>(&work)) {
    TROUPE_TRY_ASSIGN(base::Buffer sum,
                      compute_->add(key, addition->left, addition->right, context));
    const base::MutexLock lock(slot.mutex);
    slot.owner.added(addition->id, std::move(sum));
    return {};
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
  return published(slot, contained);
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
  }
  std::sort(complete.begin(), complete.end(),
            [](const auto& a, const auto& b) { return a.first.id < b.first.id; });
  return options_.cut ? options_.cut(step, std::move(complete)) : base::Status();
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
  const SliceInfo& slice = layout_->info(reply.waiting.pull.slice);
  const KeyInfo& key = keys_[slice.id.key];
  TROUPE_CHECK(
      reply.waiting.place.size() == slice.bytes && answer.weight.size() == slice.weight_bytes,
      "weight of another size");
  convert_into(answer.weight, key.weight_wire, key.dtype, reply.waiting.place.data());
  reply.waiting.operation->slice_done({});
}

void LocalStore::Core::fail(const base::Status& status) {
  {
    const base::MutexLock lock(failure_mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
  }
  for (const std::unique_ptr<Slot>& slot : slots_) {
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
  }
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const base::MutexLock lock(slot->mutex);
    if (!slot->pushes.empty() || !slot->pulls.empty()) return slot->owner.waits_for();
  }
  return {};
}

namespace {

// One rank's KVStore: each call is one asynchronous operation on the rank's copy lane, which may
// end after this object.
class RankStore final : public KVStore {
 public:
  RankStore(std::shared_ptr<LocalStore::Core> core, std::uint32_t rank, ndarray::Runtime& runtime)
      : core_(std::move(core)), rank_(rank), runtime_(runtime) {}

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return core_->ranks(); }

  base::Status init(std::span<const KeyInfo> keys, std::span<const NDArray> values) override {
    return core_->init(rank_, keys, values);
  }
  base::Status set_updater(const UpdateRule& rule) override { return core_->set_updater(rule); }

  void push(std::uint32_t key, const NDArray& gradient, const PushInfo& info) override {
    const engine::Variable reads[] = {gradient.variable()};
    runtime_.engine.push_async({"push", reads, {}, copy_lane(), info.priority},
                               [core = core_, rank = rank_, key, gradient, info](
                                   engine::RunContext& lane, engine::Completion completion) {
                                 const auto slices = core->slices(key);
                                 const auto operation = std::make_shared<KeyOperation>(
                                     slices.size(), std::move(completion));
                                 const base::Buffer bytes = gradient.buffer();
                                 std::size_t begin = 0;
                                 for (const SliceInfo& slice : slices) {
                                   base::Buffer part = info.count == 0.0
                                                           ? base::Buffer()
                                                           : bytes.slice(begin, slice.bytes);
                                   core->push(slice, rank, info, std::move(part), operation, lane);
                                   begin += slice.bytes;
                                 }
                               });
  }

  void pull(std::uint32_t key, const NDArray& weight, const PullInfo& info) override {
    const engine::Variable writes[] = {weight.variable()};
    runtime_.engine.push_async(
        {"pull", {}, writes, copy_lane(), info.priority},
        [core = core_, key, weight, info](engine::RunContext&, engine::Completion completion) {
          const auto slices = core->slices(key);
          const auto operation =
              std::make_shared<KeyOperation>(slices.size(), std::move(completion));
          const base::Buffer bytes = weight.buffer();
          std::size_t begin = 0;
          for (const SliceInfo& slice : slices) {
            WaitingPull waiting;
            waiting.pull = {slice.id, info.step, 0, info.step};
            waiting.place = bytes.slice(begin, slice.bytes).as<std::byte>();
            waiting.operation = operation;
            core->pull(slice, waiting);
            begin += slice.bytes;
          }
        });
  }

  base::Status finish(std::uint64_t) override { return {}; }

 private:
  static engine::Lane copy_lane() { return {{}, engine::LaneKind::copy}; }

  std::shared_ptr<LocalStore::Core> core_;
  std::uint32_t rank_;
  ndarray::Runtime& runtime_;
};

}  // namespace

LocalStore::LocalStore(std::shared_ptr<Core> core) : core_(std::move(core)) {
  if (core_->ranks() > 1) watch_ = std::thread([core = core_] { core->watch(); });
}

LocalStore::~LocalStore() {
  core_->end_watch();
  if (watch_.joinable()) watch_.join();
}

base::Result<std::unique_ptr<LocalStore>> LocalStore::create(const LocalStoreParts& parts,
                                                             const LocalStoreOptions& options) {
  const schemas::WorkersSpec& workers = options.workers;
  if (workers.machines == 0 || workers.devices == 0) {
    return base::error(base::Errc::invalid_argument,
                       "a local store of {} machines x {} devices has no ranks", workers.machines,
                       workers.devices);
  }
  if (options.batch == 0) {
    return base::error(base::Errc::invalid_argument, "a local store for batches of 0 samples");
  }
  if (!options.consistency.sequential()) {
    return base::error(base::Errc::invalid_argument,
                       "the local store is sequential; eventual tiers need the company");
  }
  return std::unique_ptr<LocalStore>(new LocalStore(std::make_shared<Core>(parts, options)));
}

std::unique_ptr<KVStore> LocalStore::rank_store(std::uint32_t rank, ndarray::Runtime& runtime) {
  TROUPE_CHECK(rank < core_->ranks(), "no such rank");
  return std::make_unique<RankStore>(core_, rank, runtime);
}

std::optional<std::uint64_t> LocalStore::cut_soon() {
  return core_->cut_soon();
}

void LocalStore::fail(const base::Status& status) {
  core_->fail(status);
}

base::Status LocalStore::failure() const {
  return core_->failure();
}

}  // namespace troupe::store
