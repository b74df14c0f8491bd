// SPDX-License-Identifier: Apache-2.0
// The threaded engine: one queue and its threads per lane; a stream lane has one more thread, which
// waits on the host for the events that host functions need, so that no other work waits with them.
// Threads start in make_threaded_core and end in stop_threads.
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <thread>
#include <utility>

#include "base/parallel.h"
#include "engine/core.h"
#include "engine/ready_queue.h"
#include "engine/replay.h"
#include "engine/thread_role.h"

namespace troupe::engine {

namespace {

/// Ready operations and the threads that sleep when there are none. Plain fields are guarded by the
/// core's mutex.
struct WorkQueue {
  ReadyQueue ready;
  int threads = 0;
  bool attended = false;  ///< one thread alone takes from it, and it is a lane's
  int idle = 0;           ///< threads that have found nothing to run
  int parked = 0;         ///< threads that need a signal; may be too high, never too low
  int awake = 0;          ///< threads that do not sleep, since awake_since_ns
  std::int64_t awake_since_ns = 0;
  std::int64_t awake_ns = 0;  ///< of all threads, up to awake_since_ns
  alignas(64) std::atomic<int> priority{ReadyQueue::kNoPriority};  ///< of what is ready next
  std::atomic<std::uint32_t> signal{0};
};

/// What one thread of a lane owns.
struct Worker {
  int row = 0;
  base::SlotStore slots;
  RunContext context;
  std::vector<std::shared_ptr<base::Event>> awaited;  // events of other lanes
  std::unique_ptr<IssuedWork> issued;                 // on this stream
  std::unique_ptr<StreamTimes> times;                 // of this stream, for a trace
};

class ThreadedCore final : public Core {
 public:
  ThreadedCore(const EngineOptions& options, base::Clock& clock)
      : Core(options, clock), queues_(lanes().size() * 2), spins_(spins_here(kIdleSpins)) {
    TROUPE_CHECK(queues_.size() <= 64, "too many streams for one engine");
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      const bool of_lane = i < lanes().size();
      queues_[i].threads = of_lane ? lanes()[i].threads : 1;
      queues_[i].attended = of_lane && queues_[i].threads == 1;
    }
  }

  void start();

 private:
  static constexpr int kIdleSpins = 256;  // some microseconds: the gap between two pushes
  static constexpr int kSpinsPerLook = 40;

  void make_ready(OperationState* operation) override TROUPE_REQUIRES(mutex_) {
    const auto queue = static_cast<std::size_t>(operation->lane);
    queues_[queue].ready.push(operation);
    announce(queue);
  }
  // Events of a stream pass in their order: who waits for a later one first keeps the others
  // waiting.
  void await_event(OperationState* operation) override TROUPE_REQUIRES(mutex_) {
    const std::size_t queue = event_queue(operation->event.lane);
    queues_[queue].ready.append(operation);
    announce(queue);
  }
  void leave() override TROUPE_RELEASE(mutex_) {
    const std::uint64_t wakes = wakes_;
    wakes_ = 0;
    mutex_.unlock();
    if (wakes != 0) signal_queues(wakes);
  }
  bool idles(int lane) const override TROUPE_REQUIRES(mutex_) {
    const WorkQueue& queue = queues_[static_cast<std::size_t>(lane)];
    return queue.idle == queue.threads && queue.ready.size() == 0;
  }
  void change_idle(std::size_t queue, int threads) TROUPE_REQUIRES(mutex_);
  void stop_threads() override;

  std::size_t event_queue(int lane) const {
    return lanes().size() + static_cast<std::size_t>(lane);
  }
  /// Something has joined what is ready in the queue.
  void announce(std::size_t queue) TROUPE_REQUIRES(mutex_) {
    WorkQueue& own = queues_[queue];
    own.priority.store(own.ready.priority(), std::memory_order_relaxed);
    if (own.parked > 0) wake_one(queue);
  }
  void wake_one(std::size_t queue) TROUPE_REQUIRES(mutex_);
  void count_lanes(EngineCounters& counters) const override TROUPE_REQUIRES(mutex_);
  void change_awake(std::size_t queue, int threads) TROUPE_REQUIRES(mutex_);
  void spin(const WorkQueue& own);
  void signal_queues(std::uint64_t wakes);
  OperationState* next(std::size_t queue) TROUPE_REQUIRES(mutex_);
  OperationState* take(std::size_t queue) TROUPE_REQUIRES(mutex_);
  OperationState* await_work(std::size_t queue) TROUPE_REQUIRES(mutex_);
  bool sleep(std::size_t queue) TROUPE_REQUIRES(mutex_);
  void start_thread(std::size_t queue, const std::string& name, void (ThreadedCore::*body)(int));
  void run_lane(int lane);
  void lead_lane(int lane, const LaneInfo& info);
  void run_events(int lane);
  std::unique_ptr<StreamTimes> take_times(const LaneInfo& info);
  void run_on_stream(OperationState* operation, base::Stream& stream, Worker& worker);

  std::vector<WorkQueue> queues_;  // one per lane, then one per lane for events
  const int spins_;
  std::vector<std::thread> threads_;
  std::atomic<int> rows_{0};
  std::uint64_t wakes_ TROUPE_GUARDED_BY(mutex_) = 0;  // queues to signal when the section ends
  bool stopping_ TROUPE_GUARDED_BY(mutex_) = false;
};

void ThreadedCore::start() {
  for (std::size_t i = 0; i < lanes().size(); ++i) {
    const LaneInfo& lane = lanes()[i];
    for (int t = 0; t < lane.threads; ++t) start_thread(i, lane.name, &ThreadedCore::run_lane);
    if (lane.stream == nullptr) continue;
    start_thread(event_queue(static_cast<int>(i)), lane.name + "/wait", &ThreadedCore::run_events);
  }
}

void ThreadedCore::start_thread(std::size_t queue, const std::string& name,
                                void (ThreadedCore::*body)(int)) {
  threads_.emplace_back(body, this, static_cast<int>(queue % lanes().size()));
  constexpr std::size_t kNameMax = 15;  // of pthread_setname_np
  pthread_setname_np(threads_.back().native_handle(), name.substr(0, kNameMax).c_str());
}

void ThreadedCore::stop_threads() {
  mutex_.lock();
  stopping_ = true;
  mutex_.unlock();
  for (WorkQueue& queue : queues_) {
    queue.signal.fetch_add(1, std::memory_order_release);
    queue.signal.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadedCore::signal_queues(std::uint64_t wakes) {
  for (; wakes != 0; wakes &= wakes - 1) {
    std::atomic<std::uint32_t>& signal =
        queues_[static_cast<std::size_t>(std::countr_zero(wakes))].signal;
    signal.fetch_add(1, std::memory_order_release);
    signal.notify_one();
  }
}

// At most one thread per queue and section is woken; it wakes the next one if work is left.
void ThreadedCore::wake_one(std::size_t queue) {
  const std::uint64_t bit = std::uint64_t{1} << queue;
  if ((wakes_ & bit) != 0) return;
  --queues_[queue].parked;
  wakes_ |= bit;
  if (queues_[queue].attended) set_attended(static_cast<int>(queue), true);
}

// The clock is read only where a thread goes to sleep or wakes up: between operations that follow
// each other a read would cost more than they do.
void ThreadedCore::change_awake(std::size_t queue, int threads) {
  WorkQueue& own = queues_[queue];
  const std::int64_t now = clock().now_ns();
  own.awake_ns += own.awake * (now - own.awake_since_ns);
  own.awake_since_ns = now;
  own.awake += threads;
}

void ThreadedCore::count_lanes(EngineCounters& counters) const {
  const std::int64_t now = clock().now_ns();
  for (std::size_t i = 0; i < lanes().size(); ++i) {
    const WorkQueue& queue = queues_[i];
    LaneCounters& kind = counters.lanes[static_cast<std::size_t>(lanes()[i].lane.kind)];
    kind.threads += static_cast<std::uint64_t>(queue.threads);
    kind.queued += queue.ready.size();
    kind.busy_ns += queue.awake_ns + queue.awake * (now - queue.awake_since_ns);
  }
}

// Looks now and then: whoever pushes at the same time can fill a batch meanwhile.
void ThreadedCore::spin(const WorkQueue& own) {
  for (int i = 0; i < spins_; ++i) {
    if (i % kSpinsPerLook == 0) {
      if (!inbox_empty()) return;
      if (own.priority.load(std::memory_order_relaxed) != ReadyQueue::kNoPriority) return;
    }
    spin_pause();
  }
}

// For a thread that is awake. Null when the engine ends.
OperationState* ThreadedCore::next(std::size_t queue) {
  OperationState* const operation = take(queue);
  return operation != nullptr ? operation : await_work(queue);
}

// Null when nothing is ready.
OperationState* ThreadedCore::take(std::size_t queue) {
  WorkQueue& own = queues_[queue];
  OperationState* operation = own.attended ? take_alone(static_cast<int>(queue)) : nullptr;
  if (operation == nullptr) {
    // What pushers have left has priority 0, and is younger than what is ready.
    if (own.ready.priority() < 0) queue_pushed();
    operation = own.ready.pop();
    if (operation == nullptr) return nullptr;
    own.priority.store(own.ready.priority(), std::memory_order_relaxed);
    if (own.parked > 0 && own.ready.size() > 0) wake_one(queue);
  }
  if (own.attended) set_attended(static_cast<int>(queue), true);
  return operation;
}

// Behind a take() that has found nothing.
OperationState* ThreadedCore::await_work(std::size_t queue) {
  change_idle(queue, 1);
  bool spun = spins_ == 0;
  for (;;) {
    if (!spun && !stopping_) {
      leave();
      spin(queues_[queue]);
      spun = true;
      mutex_.lock();
    } else {
      if (queues_[queue].attended) set_attended(static_cast<int>(queue), false);
      if (inbox_empty()) {
        if (!sleep(queue)) return nullptr;
        spun = spins_ == 0;
      }
    }
    if (OperationState* const operation = take(queue)) {
      change_idle(queue, -1);
      return operation;
    }
  }
}

void ThreadedCore::change_idle(std::size_t queue, int threads) {
  WorkQueue& own = queues_[queue];
  own.idle += threads;
  if (queue < lanes().size()) set_idle(static_cast<int>(queue), own.idle == own.threads);
}

// Until the queue is signalled; false when the engine ends.
bool ThreadedCore::sleep(std::size_t queue) {
  WorkQueue& own = queues_[queue];
  change_awake(queue, -1);
  if (stopping_) return false;
  own.parked = std::min(own.parked + 1, own.threads);
  const std::uint32_t seen = own.signal.load(std::memory_order_relaxed);
  leave();
  own.signal.wait(seen, std::memory_order_acquire);
  mutex_.lock();
  change_awake(queue, 1);
  return true;
}

void ThreadedCore::run_lane(int lane) {
  const ThreadRoleScope role(ThreadRole::engine);
  const LaneInfo& info = lanes()[static_cast<std::size_t>(lane)];
  base::lead_team(info.team, [&] { lead_lane(lane, info); });
}

void ThreadedCore::lead_lane(int lane, const LaneInfo& info) {
  Worker worker;
  worker.row = rows_.fetch_add(1, std::memory_order_relaxed) + 1;
  worker.context = {.team = info.team, .slots = &worker.slots};
  if (info.stream != nullptr) {
    info.stream->attach();
    worker.issued = std::make_unique<IssuedWork>(*info.stream, options().stream_operations_max);
  }
  if (trace() != nullptr) {
    trace()->name_row(worker.row, info.name);
    if (info.stream != nullptr) worker.times = take_times(info);
  }
  const auto queue = static_cast<std::size_t>(lane);
  ReplayThread replays{worker.context,          worker.row,          info.stream,
                       graph_stream(lane),      worker.issued.get(), worker.times.get(),
                       &queues_[queue].priority};
  mutex_.lock();
  change_awake(queue, 1);
  while (OperationState* operation = next(queue)) {
    if (operation->kind == OperationKind::replay) {
      run_replay(operation, replays);
      continue;
    }
    if (operation->on_stream) {
      graph_.stream_events(operation, worker.awaited);
      remember_stream_failures();  // of events that have passed: begin() looks for them
    }
    begin(operation);
    bool finished = true;
    if (operation->on_stream) {
      leave();
      run_on_stream(operation, *info.stream, worker);
    } else {
      leave();
      finished = run(operation, worker.context, worker.row);
    }
    mutex_.lock();
    if (finished) finish(operation);
  }
  leave();
}

std::unique_ptr<StreamTimes> ThreadedCore::take_times(const LaneInfo& info) {
  const int row = rows_.fetch_add(1, std::memory_order_relaxed) + 1;
  trace()->name_row(row, info.name + ", its stream");
  return std::make_unique<StreamTimes>(*info.stream, *trace(), clock(), row);
}

void ThreadedCore::run_on_stream(OperationState* operation, base::Stream& stream, Worker& worker) {
  if (operation->skipped) {
    run(operation, worker.context, worker.row);
    return;
  }
  for (const std::shared_ptr<base::Event>& event : worker.awaited) stream.wait_for(event);
  worker.context.stream = &stream;
  run(operation, worker.context, worker.row, worker.times.get());
  worker.context.stream = nullptr;
  operation->event = {operation->lane, worker.issued->record()};
}

void ThreadedCore::run_events(int lane) {
  const ThreadRoleScope role(ThreadRole::engine);
  const std::size_t queue = event_queue(lane);
  mutex_.lock();
  change_awake(queue, 1);
  while (OperationState* operation = next(queue)) {
    const std::shared_ptr<base::Event> event = operation->event.event;
    leave();
    // Its error is read again when the event is absorbed by the variable that carries it.
    static_cast<void>(event->wait_on_host());
    mutex_.lock();
    resume(operation);
  }
  mutex_.unlock();
}

}  // namespace

std::shared_ptr<Core> make_threaded_core(const EngineOptions& options, base::Clock& clock) {
  auto core = std::make_shared<ThreadedCore>(options, clock);
  core->start();
  return core;
}

}  // namespace troupe::engine
