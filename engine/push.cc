// SPDX-License-Identifier: Apache-2.0
// Core's pushers: filling operations, room for them, and the inbox through which they reach the
// graph.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/core.h"
#include "engine/thread_role.h"

namespace troupe::engine {

OperationState* Core::enter(const Operation& request, OperationKind kind) {
  const int lane = find_lane(request.lane, kind);
  check_request(request);
  const LaneInfo& info = lanes_[static_cast<std::size_t>(lane)];
  make_place();
  find_room(info, request.bytes);
  OperationState* const operation = pool_.take();
  operation->serial = next_serial();
  operation->name = request.name;
  operation->priority = request.priority;
  operation->lane = static_cast<std::int8_t>(lane);
  operation->kind = kind;
  operation->on_stream = kind == OperationKind::stream;
  operation->has_bytes = request.bytes > 0;
  if (operation->has_bytes) {
    operation->bytes = request.bytes;
    pending_bytes_[info.device].fetch_add(request.bytes, std::memory_order_relaxed);
  }
  pushed_.store(pushed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  ++entered_;
  return operation;
}

void Core::empty_inbox() {
  while (inbox_.full()) {
    entry_mutex_.unlock();
    settle_submissions();
    entry_mutex_.lock();
  }
}

std::uint64_t Core::next_serial() {
  const std::uint64_t serial = serial_.load(std::memory_order_relaxed) + 1;
  serial_.store(serial, std::memory_order_relaxed);
  return serial;
}

// What is pushed is seen by the next who takes the graph's mutex. That is the pusher himself,
// unless the operation's lane is attended: it could not run before the lane's thread has looked
// into the inbox. With a priority of its own it would have to wait there for older ones.
void Core::submit(OperationState* operation) {
  const int lane = operation->lane;
  const bool urgent = operation->priority != 0;
  inbox_.put(operation);
  entry_mutex_.unlock();
  fence_behind_unlock();  // a lane that ends to be attended looks into the inbox once more
  if (urgent || lane < 0 || !attended(lane)) settle_submissions();
}

bool Core::may_run_here(int lane) const {
  return ((idle_.load(std::memory_order_relaxed) >> lane) & 1) != 0 && trace_ == nullptr &&
         lanes_[static_cast<std::size_t>(lane)].stream == nullptr &&
         thread_role() == ThreadRole::outside;
}

// As submit(), but what is ready at once does not go to its lane: waking a thread, and waiting for
// what it has done, would take longer.
void Core::submit_brief(OperationState* operation) {
  const int lane = operation->lane;
  const std::uint64_t serial = operation->serial;
  inbox_.put(operation);
  entry_mutex_.unlock();
  mutex_.lock();
  if (!runs_here_ && idles(lane)) wanted_here_ = serial;
  queue_pushed();
  wanted_here_ = 0;
  if (OperationState* const ready = std::exchange(ready_here_, nullptr)) {
    run_here(ready);
  } else {
    leave();
  }
}

void Core::run_here(OperationState* operation) {
  runs_here_ = true;
  begin(operation);
  leave();
  {
    const ThreadRoleScope role(ThreadRole::engine);
    RunContext context{.team = lanes_[static_cast<std::size_t>(operation->lane)].team,
                       .slots = &slots_here_};
    static_cast<void>(run(operation, context, 0));
  }
  mutex_.lock();
  finish(operation);
  runs_here_ = false;
  leave();
}

void Core::settle_submissions() {
  mutex_.lock();
  queue_pushed();
  leave();
}

// Also where nothing is to be queued: the caller may have uses of his own to append.
void Core::queue_pushed(std::uint64_t end) {
  note_alone();
  inbox_.expect(end, true);
  OperationList unblocked;
  for (std::uint64_t place = inbox_.taken(); place < end; ++place) {
    OperationState* const operation = inbox_.at(place, end, true);
    link_pending(operation);
    operation->phase = OperationPhase::blocked;
    if (graph_.append(operation)) unblocked.append(operation);
  }
  if (end > inbox_.taken()) inbox_.set_taken(end);
  advance(unblocked);
}

OperationState* Core::take_alone(int lane) {
  if (first_ != nullptr || graph_.carries()) return nullptr;
  const std::uint64_t place = inbox_.taken();
  if (place >= seen_) {
    seen_ = inbox_.count();
    if (place == seen_) return nullptr;
    inbox_.expect(seen_, false);
  }
  OperationState* const operation = inbox_.at(place, seen_, false);
  const bool plain = operation->kind == OperationKind::sync && operation->priority == 0;
  if (!plain || operation->lane != lane) return nullptr;
  inbox_.set_taken(place + 1);
  link_pending(operation);
  alone_ = operation;
  ++counters_.alone;
  return operation;
}

// Its variables are free: nothing else was pending when it was taken, or has been queued since.
void Core::note_alone() {
  if (alone_ == nullptr) return;
  TROUPE_CHECK(graph_.append(std::exchange(alone_, nullptr)), "an operation ran beside others");
}

bool Core::crowded(std::size_t device, std::uint64_t bytes) const {
  const std::uint64_t held = pending_bytes_[device].load(std::memory_order_relaxed);
  return bytes > 0 && held > 0 && held + bytes > options_.engine_pending_bytes_max;
}

void Core::seek_room(const LaneInfo& lane, std::uint64_t bytes) {
  for (;;) {
    const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    const bool full = bytes > 0 && crowded(lane.device, bytes);
    if (!full && !pace_.look_is_due(pushed)) return;
    if (thread_role() != ThreadRole::outside) return;
    const PushPace::Answer answer =
        full ? PushPace::Answer::wait
             : pace_.look(pushed, pushed - completed_.load(std::memory_order_relaxed),
                          entered_ - finished_.load(std::memory_order_relaxed));
    if (answer == PushPace::Answer::go_on) return;
    const bool urgent = lane.lane.kind == LaneKind::priority;  // never waits behind compute
    if (answer == PushPace::Answer::give_way && urgent) return;
    const std::uint64_t most_of_them = entered_ - std::min(entered_, PushPace::kCaughtUp);
    entry_mutex_.unlock();
    bool caught_up = false;
    if (answer == PushPace::Answer::wait) {
      wait_for_room(lane.device, bytes);
    } else {
      caught_up = give_way(most_of_them);
    }
    make_place();
    if (caught_up) pace_.caught_up(pushed_.load(std::memory_order_relaxed));
  }
}

void Core::wait_for_room(std::size_t device, std::uint64_t bytes) {
  // Some distance between the marks, or every finished operation would wake a pusher.
  const std::uint64_t limit = options_.engine_pending_operations_max;
  const std::uint64_t low_mark = limit - limit / 8;
  mutex_.lock();
  ++pushers_waiting_;
  while (pending() >= low_mark || crowded(device, bytes)) pause();
  --pushers_waiting_;
  mutex_.unlock();
}

bool Core::give_way(std::uint64_t until) {
  const auto deadline = std::chrono::steady_clock::now() + kGiveWay;
  mutex_.lock();
  while (finished_.load(std::memory_order_relaxed) < until) {
    gives_way_until_ = std::min(gives_way_until_, until);
    if (caught_up_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
  }
  const bool caught_up = finished_.load(std::memory_order_relaxed) >= until;
  mutex_.unlock();
  return caught_up;
}

void Core::push(const Operation& request, OperationKind kind, SyncFunction&& function) {
  OperationState* const operation = enter(request, kind);
  operation->function = std::move(function);
  DependencyGraph::name_uses(operation, request);
  if (request.brief && kind == OperationKind::sync && may_run_here(operation->lane)) {
    submit_brief(operation);
  } else {
    submit(operation);
  }
}

void Core::push_async(const Operation& request, AsyncFunction&& function) {
  auto ticket = std::make_shared<Ticket>(shared_from_this());
  OperationState* const operation = enter(request, OperationKind::async);
  ticket->set(operation);
  operation->ticket = std::move(ticket);
  operation->asynchronous = std::move(function);
  DependencyGraph::name_uses(operation, request);
  submit(operation);
}

}  // namespace troupe::engine
