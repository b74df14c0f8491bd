// SPDX-License-Identifier: Apache-2.0
// Core: what the threaded and the serial engine share: one dependency graph under one mutex,
// pending operations, errors, waiting, cancelling. A kind of engine adds where ready operations go.
// Pushers take turns under a mutex of their own and leave operations in a list; who has the graph's
// mutex queues them. The Engine, every variable and every ticket hold the core, so late completions
// and handles find it alive. Sections under a mutex are short and run no user code.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/caught.h"
#include "base/clock.h"
#include "base/graph_stream.h"
#include "base/mutex.h"
#include "base/slot_store.h"
#include "engine/engine.h"
#include "engine/graph.h"
#include "engine/inbox.h"
#include "engine/operation_pool.h"
#include "engine/push_pace.h"
#include "engine/spin_mutex.h"
#include "engine/state.h"
#include "engine/trace.h"

namespace troupe::engine {

class CompiledProgram;
class StreamTimes;
struct PlannedOperation;
struct Range;
struct ReplayThread;

/// What a completion reports to. Claimed once, by the completion or by cancel; the loser does
/// nothing, so a completion may come after its engine is gone.
class Ticket final : public CompletionTarget {
 public:
  explicit Ticket(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  /// Before anybody else knows it.
  void set(OperationState* operation) { operation_ = operation; }
  void complete(base::Status status) override;
  /// True for the one caller that ends the operation.
  bool claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }

 private:
  std::shared_ptr<Core> core_;
  OperationState* operation_ = nullptr;
  std::atomic<bool> claimed_{false};
};

/// A lane as every kind of engine sees it.
struct LaneInfo {
  Lane lane;
  base::Stream* stream = nullptr;
  int team = 1;
  int threads = 1;
  std::string name;
  std::size_t device = 0;  ///< number of the first lane of this lane's device
};

/// See the top of the file. The public functions are those of Engine.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(const EngineOptions& options, base::Clock& clock);
  virtual ~Core() = default;
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  Variable new_variable(std::string_view label);
  bool owns(const Variable& variable) const;
  void push(const Operation& request, OperationKind kind, SyncFunction&& function);
  void push_async(const Operation& request, AsyncFunction&& function);
  Program compile(Recording recording);
  base::Status wait(const Variable& variable);
  base::Status wait_all();
  void cancel(std::string_view reason);
  std::string dump();
  EngineCounters counters();
  int team(const Lane& lane) const;
  /// Waits for everything, ends the threads, writes the trace. The last call.
  void shut_down();
  /// True until shut_down() has waited for everything. Any thread.
  bool open() const { return open_.load(std::memory_order_acquire); }

  bool has_error(const VariableState* variable) const;
  /// The last handle of `variable` is gone. Called by Variable.
  void drop_variable(VariableState* variable);
  /// Pushes a replay. Called by Program.
  void push_replay(CompiledProgram& program, int priority);
  /// The handle of `program` is gone. True: no replay is pending, the caller deletes it.
  bool orphan(CompiledProgram& program);
  /// An asynchronous operation has its result. Called by the claimer of its ticket.
  void complete(OperationState* operation, base::Status status);

 protected:
  /// `operation` may run: the engine queues it on its lane.
  virtual void make_ready(OperationState* operation) TROUPE_REQUIRES(mutex_) = 0;
  /// A host function must wait for operation->event; resume() follows when it has passed.
  virtual void await_event(OperationState* operation) TROUPE_REQUIRES(mutex_) = 0;
  /// Ends a section and lets ready operations run.
  virtual void leave() TROUPE_RELEASE(mutex_) = 0;
  /// Queues operations that pushers have left in the inbox.
  void queue_pushed() TROUPE_REQUIRES(mutex_) { queue_pushed(inbox_.count()); }
  bool inbox_empty() const { return inbox_.empty(); }
  /// Where nothing is pending: the oldest operation that pushers have left, if it is a plain one of
  /// `lane`. It may run at once, and in push order nobody needs to know its variables: the graph
  /// hears of them when something else is queued meanwhile. Null: there is no such operation.
  OperationState* take_alone(int lane) TROUPE_REQUIRES(mutex_);
  /// Says that a lane has one thread, which runs something now or has been woken, and looks into
  /// the inbox before it chooses what to run next; or, no longer. Then inbox_empty() has to be
  /// asked once more.
  void set_attended(int lane, bool attended) TROUPE_REQUIRES(mutex_) {
    set_bit(attended_, lane, attended);
  }
  /// No thread of the lane runs anything, and nothing waits for one.
  virtual bool idles(int lane) const TROUPE_REQUIRES(mutex_) = 0;
  /// What idles() would say, for those who do not hold the mutex: a lane's threads tell it.
  void set_idle(int lane, bool idle) TROUPE_REQUIRES(mutex_) { set_bit(idle_, lane, idle); }
  /// Ends and joins the threads; nothing is pending.
  virtual void stop_threads() = 0;
  /// Adds what is known of threads and queues: threads, queued, busy_ns of each kind.
  virtual void count_lanes(EngineCounters&) const TROUPE_REQUIRES(mutex_) {}

  /// Decides whether the function runs or is skipped; before run().
  void begin(OperationState* operation) TROUPE_REQUIRES(mutex_) {
    operation->phase = OperationPhase::running;
    if (operation != alone_) DependencyGraph::ask_for_successors(operation);
    const bool plain = !graph_.carries() && operation->kind == OperationKind::sync;
    if (!plain || cancelled_) begin_specially(operation);
  }
  /// Those of events that have passed and been absorbed.
  void remember_stream_failures() TROUPE_REQUIRES(mutex_);
  /// Runs the function or skips it, without the mutex. `times`: takes down when the work that it
  /// issues runs, and the thread's row shows the issuing. True: the caller calls finish(). False:
  /// its completion does, and the operation must not be touched.
  bool run(OperationState* operation, RunContext& context, int row, StreamTimes* times = nullptr);
  /// Spreads the result and releases the variables.
  void finish(OperationState* operation) TROUPE_REQUIRES(mutex_);
  /// Runs operations of a replay until all have ended, or none may run now, or others of its lane
  /// go first. Lets go of the mutex meanwhile. The operation must not be touched afterwards.
  void run_replay(OperationState* operation, ReplayThread& thread) TROUPE_REQUIRES(mutex_);
  /// The lane's stream, where programs may issue graphs on it; else null.
  base::GraphStream* graph_stream(int lane) const;
  /// The event of operation->event has passed.
  void resume(OperationState* operation) TROUPE_REQUIRES(mutex_);

  const std::vector<LaneInfo>& lanes() const { return lanes_; }
  const EngineOptions& options() const { return options_; }
  Trace* trace() const { return trace_.get(); }
  const base::Clock& clock() const { return clock_; }

  mutable SpinMutex mutex_;
  DependencyGraph graph_ TROUPE_GUARDED_BY(mutex_);

 private:
  static constexpr std::size_t kUnreportedMax = 64;
  static constexpr std::chrono::seconds kPauseWarn{60};  // a wait this long is logged with a dump
  static constexpr std::chrono::milliseconds kGiveWay{1};
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::uint64_t kDumpOperationsMax = 1000;
  static constexpr int kWaitSpins = 1024;  // on x86 about what it costs to fall asleep and be woken

  /// A thread in wait_all: done when every operation up to `target` is.
  struct AllWait {
    std::uint64_t target = 0;
    std::atomic<bool> done{false};  // set under mutex_, and looked at without it
    AllWait* next = nullptr;
  };

  /// Of words that one thread at a time writes.
  static void set_bit(std::atomic<std::uint64_t>& word, int number, bool value) {
    const std::uint64_t bit = std::uint64_t{1} << number;
    const std::uint64_t before = word.load(std::memory_order_relaxed);
    if (((before & bit) != 0) != value) word.store(before ^ bit, std::memory_order_seq_cst);
  }
  void begin_specially(OperationState* operation) TROUPE_REQUIRES(mutex_);
  void submit(Replay& replay, int priority) TROUPE_REQUIRES(mutex_);
  void grant_port(OperationState* port) TROUPE_REQUIRES(mutex_);
  void take_granted(Replay& replay) TROUPE_REQUIRES(mutex_);
  void begin_replay(Replay& replay, ReplayThread& thread) TROUPE_REQUIRES(mutex_);
  bool run_inner_operations(Replay& replay, ReplayThread& thread, bool& ran);
  std::uint32_t run_quiet(CompiledProgram& program, Range units, int first, ReplayThread& thread);
  std::uint32_t run_plain(CompiledProgram& program, Range units, int first, ReplayThread& thread);
  bool is_overtaken(const ReplayThread& thread, int first) const;
  void run_unit(CompiledProgram& program, std::uint32_t index, ReplayThread& thread);
  void run_inner(CompiledProgram& program, PlannedOperation& operation, std::uint32_t unit,
                 ReplayThread& thread);
  bool skip_inner(CompiledProgram& program, const PlannedOperation& operation);
  base::Status call_inner(CompiledProgram& program, PlannedOperation& operation, std::uint32_t unit,
                          ReplayThread& thread);
  base::Status trace_inner(CompiledProgram& program, PlannedOperation& operation,
                           std::uint32_t unit, ReplayThread& thread);
  void spread_inner(CompiledProgram& program, const PlannedOperation& operation,
                    base::Status status);
  void enter_unit(CompiledProgram& program, std::uint32_t index, ReplayThread& thread);
  base::Status issue_inner(CompiledProgram& program, PlannedOperation& operation,
                           std::uint32_t unit, ReplayThread& thread);
  bool issue_as_graph(CompiledProgram& program, std::uint32_t index, ReplayThread& thread);
  std::shared_ptr<Failure> cancelled_failure();
  void settle(Replay& replay, const std::shared_ptr<base::Event>& event) TROUPE_REQUIRES(mutex_);
  void release_port(Replay& replay, std::uint32_t index, const std::shared_ptr<base::Event>& event,
                    OperationList& unblocked) TROUPE_REQUIRES(mutex_);
  void end_replay(Replay& replay, const std::shared_ptr<base::Event>& event)
      TROUPE_REQUIRES(mutex_);
  void tell_pushers(bool bytes_freed) TROUPE_REQUIRES(mutex_);

  void call(OperationState* operation, RunContext& context);
  void call_traced(OperationState* operation, RunContext& context, int row, StreamTimes* times);
  void fail(OperationState* operation, base::Status status);
  int find_lane(const Lane& lane, OperationKind kind) const;
  void check_request(const Operation& request) const;
  OperationState* enter(const Operation& request, OperationKind kind) TROUPE_ACQUIRE(entry_mutex_);
  /// Takes the mutex, with a free place in the inbox.
  void make_place() TROUPE_ACQUIRE(entry_mutex_) {
    entry_mutex_.lock();
    if (inbox_.full()) empty_inbox();
  }
  void empty_inbox() TROUPE_REQUIRES(entry_mutex_);
  std::uint64_t next_serial() TROUPE_REQUIRES(entry_mutex_);
  void submit(OperationState* operation) TROUPE_RELEASE(entry_mutex_);
  void submit_brief(OperationState* operation) TROUPE_RELEASE(entry_mutex_);
  bool may_run_here(int lane) const;
  void run_here(OperationState* operation) TROUPE_RELEASE(mutex_);
  void queue_pushed(std::uint64_t end) TROUPE_REQUIRES(mutex_);
  /// Before any use or any handle of a variable is looked at: the graph knows all that run.
  void note_alone() TROUPE_REQUIRES(mutex_);
  bool attended(int lane) const {
    return ((attended_.load(std::memory_order_seq_cst) >> lane) & 1) != 0;
  }
  void settle_submissions();
  void pause() TROUPE_REQUIRES(mutex_);
  void look_for(const std::atomic<bool>& done) const;
  std::uint64_t pending() const TROUPE_REQUIRES(mutex_);
  bool crowded(std::size_t device, std::uint64_t bytes) const;
  /// Before one more is pushed: waits or gives way where the thread may, without the mutex.
  /// What lanes count is read only when the pace says so: they write it all the time.
  void find_room(const LaneInfo& lane, std::uint64_t bytes) TROUPE_REQUIRES(entry_mutex_) {
    const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    if (bytes > 0 || pace_.look_is_due(pushed)) seek_room(lane, bytes);
  }
  void seek_room(const LaneInfo& lane, std::uint64_t bytes) TROUPE_REQUIRES(entry_mutex_);
  void wait_for_room(std::size_t device, std::uint64_t bytes);
  /// Sleeps until finished_ has grown to `until`, kGiveWay at most; whether it has.
  bool give_way(std::uint64_t until);
  void advance(OperationList& unblocked) TROUPE_REQUIRES(mutex_);
  void answer(OperationState* operation, OperationList& unblocked) TROUPE_REQUIRES(mutex_);
  /// Of one that was skipped, failed or is of kind async; its error, if it has one.
  std::shared_ptr<Failure> count_end(OperationState* operation) TROUPE_REQUIRES(mutex_);
  LaneCounters& counters_of(const OperationState* operation) TROUPE_REQUIRES(mutex_);
  void recycle(OperationState* operation) TROUPE_REQUIRES(mutex_);
  void link_pending(OperationState* operation) TROUPE_REQUIRES(mutex_) {
    operation->next = nullptr;
    operation->previous = last_;
    (last_ == nullptr ? first_ : last_->next) = operation;
    last_ = operation;
  }
  void unlink_pending(OperationState* operation) TROUPE_REQUIRES(mutex_) {
    (operation->previous == nullptr ? first_ : operation->previous->next) = operation->next;
    (operation->next == nullptr ? last_ : operation->next->previous) = operation->previous;
    if (pushers_waiting_ > 0) tell_pushers(operation->has_bytes);
    if (all_waits_ != nullptr) answer_all_waits();
  }
  void answer_all_waits() TROUPE_REQUIRES(mutex_);
  void remember(const std::shared_ptr<Failure>& failure) TROUPE_REQUIRES(mutex_);
  base::Status take_unreported() TROUPE_REQUIRES(mutex_);
  void wait_until_done(std::uint64_t target) TROUPE_REQUIRES(mutex_);
  void wait_for_streams() TROUPE_REQUIRES(mutex_);

  const EngineOptions options_;
  base::Clock& clock_;
  const int wait_spins_;
  std::vector<LaneInfo> lanes_;
  std::unique_ptr<Trace> trace_;
  std::atomic<bool> open_{true};
  std::atomic<bool> cancelling_{false};  // cancelled_ is set; read without the mutex

  std::unique_ptr<std::atomic<std::uint64_t>[]> pending_bytes_;  // by LaneInfo::device

  base::CondVar changed_;    // somebody in wait(), wait_all() or push() may go on
  base::CondVar caught_up_;  // so may somebody who gives way

  // Set under mutex_, on a line of their own: pushers read them seldom.
  alignas(64) std::atomic<std::uint64_t> completed_{0};  // counters_.completed
  std::atomic<std::uint64_t> finished_{0};               // of these, not in replays

  // Of pushers. Nobody takes mutex_ while holding entry_mutex_.
  SpinMutex entry_mutex_;
  OperationPool pool_;                    // taking: entry_mutex_; giving: mutex_
  std::atomic<std::uint64_t> serial_{0};  // set under entry_mutex_
  std::atomic<std::uint64_t> pushed_{0};  // set under entry_mutex_
  std::uint64_t entered_ TROUPE_GUARDED_BY(entry_mutex_) = 0;  // of pushed_, not in replays
  PushPace pace_ TROUPE_GUARDED_BY(entry_mutex_);
  Inbox inbox_;                                         // putting: entry_mutex_; taking: mutex_
  alignas(64) std::atomic<std::uint64_t> attended_{0};  // lanes; set under mutex_
  std::atomic<std::uint64_t> idle_{0};                  // the same

  alignas(64) OperationState* first_ TROUPE_GUARDED_BY(mutex_) = nullptr;  // pending, in push order
  OperationState* last_ TROUPE_GUARDED_BY(mutex_) = nullptr;
  OperationState* alone_ TROUPE_GUARDED_BY(mutex_) = nullptr;  // runs, unknown to the graph
  std::uint64_t seen_ TROUPE_GUARDED_BY(mutex_) = 0;           // inbox_.count(), some time ago
  AllWait* all_waits_ TROUPE_GUARDED_BY(mutex_) = nullptr;
  int pushers_waiting_ TROUPE_GUARDED_BY(mutex_) = 0;
  // The least value of finished_ for which one who gives way sleeps; kNever: nobody does.
  std::uint64_t gives_way_until_ TROUPE_GUARDED_BY(mutex_) = kNever;
  // One pusher at a time runs an operation itself: the one of this push, once it is ready.
  std::uint64_t wanted_here_ TROUPE_GUARDED_BY(mutex_) = 0;
  OperationState* ready_here_ TROUPE_GUARDED_BY(mutex_) = nullptr;
  bool runs_here_ TROUPE_GUARDED_BY(mutex_) = false;
  base::SlotStore slots_here_;  // of whoever has set runs_here_
  EngineCounters counters_ TROUPE_GUARDED_BY(mutex_);
  std::shared_ptr<Failure> cancelled_ TROUPE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Failure>> unreported_ TROUPE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<base::Event>> lane_events_
      TROUPE_GUARDED_BY(mutex_);  // newest per lane
};

/// Calls `function`; what it throws becomes an error that names `name`, which is text of any kind.
template <typename Name>
base::Status guarded(SyncFunction& function, const Name& name, RunContext& context) {
  return base::caught(name, [&] { return function(context); });
}

/// The first `count` lines of a dump, and how many more it has.
std::string first_lines(std::string_view text, std::size_t count);

/// The kinds of core, for engine.cc.
std::shared_ptr<Core> make_threaded_core(const EngineOptions& options, base::Clock& clock);
std::shared_ptr<Core> make_serial_core(const EngineOptions& options, base::Clock& clock);

}  // namespace troupe::engine
