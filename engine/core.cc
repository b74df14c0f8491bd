// SPDX-License-Identifier: Apache-2.0
// The life of an operation: enter, submit, advance, begin, run, finish. Waiting and cancelling.
#include "engine/core.h"

#include <utility>

#include "base/caught.h"
#include "base/log.h"
#include "engine/stream_times.h"
#include "engine/thread_role.h"

namespace troupe::engine {

namespace {

constexpr std::string_view kKindNames[] = {"compute", "copy", "priority"};

std::vector<LaneInfo> make_lanes(const EngineOptions& options) {
  const std::string& name = options.thread_name;
  std::vector<LaneInfo> lanes = {
      {{base::Device{}, LaneKind::compute}, nullptr, options.threads, 1, name + "/cpu"},
      {{base::Device{}, LaneKind::copy}, nullptr, 1, options.copy_threads, name + "/copy"},
      {{base::Device{}, LaneKind::priority}, nullptr, 1, options.priority_threads, name + "/prio"}};
  for (base::Stream* stream : options.streams) {
    int kind = 0;  // the how-manieth stream of its device this is
    for (const LaneInfo& lane : lanes) kind += lane.stream && lane.lane.device == stream->device();
    TROUPE_CHECK(kind < 3, "a device has at most three streams: compute, copy, priority");
    lanes.push_back({{stream->device(), static_cast<LaneKind>(kind)},
                     stream,
                     1,
                     1,
                     fmt::format("{}/{}", name, stream->device().to_string())});
  }
  for (LaneInfo& lane : lanes) {
    while (lanes[lane.device].lane.device != lane.lane.device) ++lane.device;
  }
  return lanes;
}

}  // namespace

void Ticket::complete(base::Status status) {
  if (claim()) core_->complete(operation_, std::move(status));
}

Core::Core(const EngineOptions& options, base::Clock& clock)
    : options_(options),
      clock_(clock),
      wait_spins_(spins_here(kWaitSpins)),
      lanes_(make_lanes(options)),
      pace_(options.engine_pending_operations_max) {
  TROUPE_CHECK(options.threads >= 1 && options.copy_threads >= 1 && options.priority_threads >= 1,
               "an engine needs at least one thread per lane");
  TROUPE_CHECK(options.engine_pending_operations_max >= 1, "an engine needs room to push");
  if (!options.trace_path.empty()) {
    trace_ = std::make_unique<Trace>(options.trace_path, options.trace_events_max);
  }
  lane_events_.resize(lanes_.size());
  pending_bytes_ = std::make_unique<std::atomic<std::uint64_t>[]>(lanes_.size());
}

int Core::find_lane(const Lane& lane, OperationKind kind) const {
  if (lane.device.kind == base::DeviceKind::cpu) {
    TROUPE_CHECK(kind != OperationKind::stream, "a stream operation on a CPU lane");
    return static_cast<int>(lane.kind);
  }
  int found = -1;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& candidate = lanes_[i].lane;
    if (candidate.device != lane.device || lanes_[i].stream == nullptr) continue;
    if (candidate.kind == lane.kind) return static_cast<int>(i);
    if (found < 0) found = static_cast<int>(i);
  }
  TROUPE_CHECK(found >= 0,
               fmt::format("this engine has no stream of device {}, wanted by a {} lane",
                           lane.device.to_string(), kKindNames[static_cast<int>(lane.kind)]));
  return found;
}

int Core::team(const Lane& lane) const {
  return lanes_[static_cast<std::size_t>(find_lane(lane, OperationKind::sync))].team;
}

Variable Core::new_variable(std::string_view label) {
  mutex_.lock();
  VariableState* const state = graph_.take_variable();
  state->label = label;
  state->core = shared_from_this();
  state->handles.store(1, std::memory_order_relaxed);
  mutex_.unlock();
  return Variable(state);
}

void Core::drop_variable(VariableState* variable) {
  if (!inbox_.empty()) settle_submissions();  // they may name it
  mutex_.lock();
  note_alone();
  const std::shared_ptr<Core> self = graph_.orphan(variable);
  mutex_.unlock();
}

bool Core::has_error(const VariableState* variable) const {
  mutex_.lock();
  const bool failed = variable->failure != nullptr;
  mutex_.unlock();
  return failed;
}

bool Core::owns(const Variable& variable) const {
  return variable && variable.state()->core.get() == this;
}

void Core::check_request(const Operation& request) const {
  const auto check = [&](std::span<const Variable> variables) {
    for (const Variable& variable : variables) {
      TROUPE_CHECK(owns(variable),
                   fmt::format("[{}] a variable is empty or of another engine", request.name));
    }
  };
  check(request.overwrites);
  check(request.writes);
  check(request.reads);
}

// Without the mutex, before the caller sleeps: most that somebody waits for in a loop of short
// operations is done before he would sleep, and before the lane's thread does.
void Core::look_for(const std::atomic<bool>& done) const {
  for (int spin = 0; spin < wait_spins_ && !done.load(std::memory_order_relaxed); ++spin) {
    spin_pause();
  }
}

void Core::pause() {
  if (changed_.wait_for(mutex_, kPauseWarn) == std::cv_status::no_timeout) return;
  mutex_.unlock();
  constexpr std::size_t kLines = 5;  // the oldest operations: the others wait for them
  const std::string all = dump();
  base::log_warn("a thread waits long for an engine; {}", first_lines(all, kLines));
  base::log_debug("all that the engine holds: {}", all);
  mutex_.lock();
}

std::uint64_t Core::pending() const {
  return pushed_.load(std::memory_order_relaxed) - counters_.completed;
}

void Core::advance(OperationList& unblocked) {
  while (OperationState* operation = unblocked.take()) {
    if (!operation->on_stream && graph_.carries()) {
      const bool waits = graph_.host_event(operation);
      remember_stream_failures();
      if (waits) {
        operation->phase = OperationPhase::awaiting_event;
        await_event(operation);
        continue;
      }
    }
    if (operation->kind == OperationKind::wait) {
      answer(operation, unblocked);
      continue;
    }
    if (operation->kind == OperationKind::port) {
      grant_port(operation);
      continue;
    }
    operation->phase = OperationPhase::ready;
    if (operation->serial == wanted_here_) {
      ready_here_ = operation;
    } else {
      make_ready(operation);
    }
  }
}

void Core::resume(OperationState* operation) {
  operation->event = {};
  OperationList unblocked;
  unblocked.append(operation);
  advance(unblocked);
}

void Core::begin_specially(OperationState* operation) {
  const std::shared_ptr<Failure>* inherited =
      cancelled_ ? &cancelled_ : graph_.inherited(operation);
  operation->skipped = inherited != nullptr;
  if (operation->skipped) {
    operation->inherited = *inherited;
  } else if (operation->kind == OperationKind::async) {
    ++counters_.asynchronous_in_flight;
    operation->parties.store(2, std::memory_order_relaxed);
  }
}

namespace {

void set_outcome(OperationState* operation, base::Status status) {
  operation->failed = !status.ok();
  if (operation->failed) operation->outcome = std::move(status);
}

void drop_function(OperationState* operation) {
  operation->function.reset();
  if (operation->kind == OperationKind::async) operation->asynchronous.reset();
}

}  // namespace

// What a function throws must neither end the process nor leave the operation's variables held.
void Core::call(OperationState* operation, RunContext& context) {
  if (operation->kind != OperationKind::async) {
    set_outcome(operation, guarded(operation->function, operation->name, context));
    return;
  }
  try {
    operation->asynchronous(context, Completion(operation->ticket));
  } catch (...) {
    fail(operation, base::status_of_exception(operation->name));
  }
}

// An asynchronous function that threw has most often dropped its completion, which called the
// operation abandoned. Where the completion is with somebody else, it comes too late from now on.
void Core::fail(OperationState* operation, base::Status status) {
  if (operation->ticket->claim()) {
    set_outcome(operation, std::move(status));
    operation->parties.fetch_sub(1, std::memory_order_acq_rel);
  } else if (operation->parties.load(std::memory_order_acquire) == 1) {
    set_outcome(operation, std::move(status));
  } else {
    base::log_warn("{}, while its completion is being used", status.text());
  }
}

void Core::call_traced(OperationState* operation, RunContext& context, int row,
                       StreamTimes* times) {
  const std::string_view name = operation->name;
  std::string_view detail;
  if (operation->kind != OperationKind::async) context.detail = &detail;
  operation->begin_ns = clock_.now_ns();
  if (times != nullptr) times->begin();
  call(operation, context);
  context.detail = nullptr;
  if (times != nullptr) times->end({name, detail});
  const TracedRun traced = times != nullptr ? kIssue : TracedRun{name, detail};
  trace_->add_run(traced, row, operation->begin_ns, clock_.now_ns());
}

bool Core::run(OperationState* operation, RunContext& context, int row, StreamTimes* times) {
  if (!operation->skipped) {
    if (trace_) {
      call_traced(operation, context, row, times);
    } else {
      call(operation, context);
    }
    const bool asynchronous = operation->kind == OperationKind::async;
    if (asynchronous && operation->parties.fetch_sub(1, std::memory_order_acq_rel) == 2) {
      return false;
    }
  }
  // What the function captured goes before its variables are released.
  drop_function(operation);
  return true;
}

void Core::complete(OperationState* operation, base::Status status) {
  set_outcome(operation, status.code() == base::Errc::abandoned
                             ? status.with_context(fmt::format("[{}]", operation->name))
                             : std::move(status));
  if (operation->parties.fetch_sub(1, std::memory_order_acq_rel) == 2) return;
  drop_function(operation);
  mutex_.lock();
  finish(operation);
  leave();
}

LaneCounters& Core::counters_of(const OperationState* operation) {
  const LaneInfo& lane = lanes_[static_cast<std::size_t>(operation->lane)];
  return counters_.lanes[static_cast<std::size_t>(lane.lane.kind)];
}

std::shared_ptr<Failure> Core::count_end(OperationState* operation) {
  LaneCounters& of_kind = counters_of(operation);
  if (operation->skipped) {
    ++counters_.skipped;
    ++of_kind.skipped;
    return operation->inherited;
  }
  if (operation->kind == OperationKind::async) {
    --counters_.asynchronous_in_flight;
    if (trace_) {
      trace_->add_flight(operation->name, operation->serial, operation->begin_ns, clock_.now_ns());
    }
  }
  if (!operation->failed) return nullptr;
  ++counters_.failed;
  ++of_kind.failed;
  auto failure = std::make_shared<Failure>(Failure{operation->outcome});
  remember(failure);
  return failure;
}

void Core::finish(OperationState* operation) {
  const bool plain =
      !operation->skipped && !operation->failed && operation->kind != OperationKind::async;
  graph_.settle_errors(operation, plain ? nullptr : count_end(operation));
  if (operation->on_stream && operation->event.event) {
    graph_.record_event(operation);
    lane_events_[static_cast<std::size_t>(operation->lane)] = operation->event.event;
  }
  OperationList unblocked;
  if (operation == alone_) {
    alone_ = nullptr;
  } else {
    graph_.release(operation, unblocked);
  }
  ++counters_.completed;
  ++counters_of(operation).completed;
  completed_.store(counters_.completed, std::memory_order_relaxed);
  const std::uint64_t finished = finished_.load(std::memory_order_relaxed) + 1;
  finished_.store(finished, std::memory_order_relaxed);
  if (finished >= gives_way_until_) {
    gives_way_until_ = kNever;
    caught_up_.notify_all();
  }
  if (operation->has_bytes) {
    const std::size_t device = lanes_[static_cast<std::size_t>(operation->lane)].device;
    pending_bytes_[device].fetch_sub(operation->bytes, std::memory_order_relaxed);
  }
  unlink_pending(operation);
  recycle(operation);
  advance(unblocked);
}

void Core::answer(OperationState* operation, OperationList& unblocked) {
  WaitNode& waiter = *operation->waiter;
  if (const std::shared_ptr<Failure>* inherited = graph_.inherited(operation)) {
    waiter.status = (*inherited)->status;
    (*inherited)->reported = true;
  }
  waiter.done = true;
  changed_.notify_all();
  graph_.release(operation, unblocked);
  unlink_pending(operation);
  recycle(operation);
}

void Core::recycle(OperationState* operation) {
  if (operation->skipped) operation->inherited.reset();
  if (operation->on_stream) operation->event = {};
  if (operation->failed) operation->outcome = {};
  if (operation->kind == OperationKind::async) operation->ticket.reset();
  operation->skipped = false;
  operation->failed = false;
  pool_.give(operation);
}

void Core::answer_all_waits() {
  for (AllWait* wait = all_waits_; wait != nullptr; wait = wait->next) {
    if (wait->done || (first_ != nullptr && first_->serial <= wait->target)) continue;
    wait->done = true;
    changed_.notify_all();
  }
}

void Core::tell_pushers(bool bytes_freed) {
  const std::uint64_t limit = options_.engine_pending_operations_max;
  if (bytes_freed || pending() < limit - limit / 8) changed_.notify_all();
}

void Core::remember(const std::shared_ptr<Failure>& failure) {
  // The first errors tell most; a flood of them must not take memory.
  if (unreported_.size() < kUnreportedMax) unreported_.push_back(failure);
}

void Core::remember_stream_failures() {
  for (const std::shared_ptr<Failure>& failure : graph_.take_stream_failures()) remember(failure);
}

base::Status Core::take_unreported() {
  base::Status first;
  for (const std::shared_ptr<Failure>& failure : unreported_) {
    if (first.ok() && !failure->reported) first = failure->status;
    failure->reported = true;
  }
  unreported_.clear();
  return first;
}

base::Status Core::wait(const Variable& variable) {
  TROUPE_CHECK(thread_role() == ThreadRole::outside, "wait() on an engine or actor thread");
  if (!owns(variable)) {
    return base::error(base::Errc::invalid_argument,
                       "wait() for a variable that is empty or of another engine");
  }
  WaitNode node;
  make_place();
  OperationState* const operation = pool_.take();
  operation->serial = next_serial();
  operation->name = "wait";
  operation->kind = OperationKind::wait;
  operation->on_stream = false;
  operation->lane = -1;
  operation->has_bytes = false;
  operation->waiter = &node;
  DependencyGraph::name_uses(operation, {.reads = {&variable, 1}});
  submit(operation);
  look_for(node.done);
  mutex_.lock();
  while (!node.done) pause();
  mutex_.unlock();
  return node.status;
}

void Core::wait_until_done(std::uint64_t target) {
  if (first_ == nullptr || first_->serial > target) return;
  AllWait wait{.target = target, .next = all_waits_};
  all_waits_ = &wait;
  mutex_.unlock();
  look_for(wait.done);
  mutex_.lock();
  while (!wait.done) pause();
  AllWait** link = &all_waits_;
  while (*link != &wait) link = &(*link)->next;
  *link = wait.next;
}

void Core::wait_for_streams() {
  const std::vector<std::shared_ptr<base::Event>> events = lane_events_;
  bool any = false;
  mutex_.unlock();
  for (const std::shared_ptr<base::Event>& event : events) {
    // The status is read again below, per variable that carries the event.
    any |= event != nullptr && (static_cast<void>(event->wait_on_host()), true);
  }
  mutex_.lock();
  if (!any) return;
  graph_.absorb_passed_events();
  remember_stream_failures();
}

base::Status Core::wait_all() {
  TROUPE_CHECK(thread_role() == ThreadRole::outside, "wait_all() on an engine or actor thread");
  const std::uint64_t target = serial_.load(std::memory_order_seq_cst);
  settle_submissions();
  mutex_.lock();
  wait_until_done(target);
  wait_for_streams();
  const base::Status status = take_unreported();
  leave();
  return status;
}

void Core::cancel(std::string_view reason) {
  OperationList ended;
  mutex_.lock();
  if (!cancelled_) {
    cancelled_ = std::make_shared<Failure>(
        Failure{base::Status(base::Errc::cancelled, std::string(reason))});
    remember(cancelled_);
    cancelling_.store(true, std::memory_order_relaxed);
  }
  for (OperationState* operation = first_; operation != nullptr; operation = operation->next) {
    const bool outstanding = operation->kind == OperationKind::async &&
                             operation->phase == OperationPhase::running && !operation->skipped;
    if (!outstanding || !operation->ticket->claim()) continue;
    set_outcome(operation, cancelled_->status);
    // When the function has not returned yet, its thread finishes the operation.
    if (operation->parties.fetch_sub(1, std::memory_order_acq_rel) == 1) ended.append(operation);
  }
  leave();
  while (OperationState* operation = ended.take()) {
    drop_function(operation);
    mutex_.lock();
    finish(operation);
    leave();
  }
}

EngineCounters Core::counters() {
  if (!inbox_.empty()) settle_submissions();
  mutex_.lock();
  EngineCounters counters = counters_;
  counters.pushed = pushed_.load(std::memory_order_relaxed);
  counters.pending = counters.pushed - counters.completed;
  count_lanes(counters);
  mutex_.unlock();
  return counters;
}

void Core::shut_down() {
  TROUPE_CHECK(thread_role() != ThreadRole::engine, "an engine destroyed on an engine thread");
  for (;;) {  // what ends may have pushed more
    settle_submissions();
    mutex_.lock();
    if (first_ == nullptr && inbox_.empty()) break;
    wait_until_done(serial_.load(std::memory_order_relaxed));
    mutex_.unlock();
  }
  wait_for_streams();
  open_.store(false, std::memory_order_release);
  leave();
  stop_threads();
  if (!trace_) return;
  const base::Status written = trace_->write();
  if (!written.ok()) base::log_warn("the engine's trace is lost: {}", written.to_string());
}

}  // namespace troupe::engine
