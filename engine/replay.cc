// SPDX-License-Identifier: Apache-2.0
// Replays: pushing all ports at once, running inner operations without the mutex, and letting ports
// go. The mutex is taken where ports are granted or released, and where a replay begins, stops and
// ends.
#include "engine/replay.h"

#include <algorithm>
#include <span>

#include "base/log.h"
#include "engine/thread_role.h"

namespace troupe::engine {

namespace {

constexpr std::uint32_t kAhead = 8;  // how many places ahead a function is asked for

/// The context has the lane's stream meanwhile.
class StreamScope {
 public:
  explicit StreamScope(ReplayThread& thread) : context_(thread.context) {
    context_.stream = thread.stream;
  }
  ~StreamScope() { context_.stream = nullptr; }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  RunContext& context_;
};

/// The work of all operations as one graph. Their first error, if none of the stream itself.
base::Result<std::shared_ptr<base::StreamGraph>> write_down(std::span<PlannedOperation> operations,
                                                            ReplayThread& thread) {
  TROUPE_TRY(thread.graph_stream->begin_graph());
  base::Status status;
  for (PlannedOperation& operation : operations) {
    if (!status.ok()) break;
    status = guarded(operation.function, operation.name, thread.context);
  }
  base::Result<std::shared_ptr<base::StreamGraph>> graph = thread.graph_stream->end_graph();
  if (!status.ok()) return status;
  return graph;
}

}  // namespace

Replay::Replay(CompiledProgram& of)
    : program(of), ports(std::make_unique<OperationState[]>(of.plan().ports.size())) {
  const std::size_t count = of.plan().ports.size();
  for (std::size_t i = 0; i <= count; ++i) {
    OperationState& state = i < count ? ports[i] : operation;
    state.kind = i < count ? OperationKind::port : OperationKind::replay;
    state.on_stream = of.on_stream();
    state.name = of.label();
    state.lane = static_cast<std::int8_t>(of.lane());
    state.replay = this;
    if (i == count) continue;
    state.use_count = 1;
    state.inline_uses[0].variable = of.ports()[of.plan().ports[i].variable].state();
    state.inline_uses[0].write = of.plan().ports[i].write;
  }
  operation.use_count = static_cast<std::uint32_t>(of.held().size());
  if (operation.use_count > OperationState::kInlineUses) {
    operation.more_uses.resize(operation.use_count);
  }
  for (std::size_t i = 0; i < operation.use_count; ++i) {
    operation.uses()[i].variable = of.held()[i].state();
    operation.uses()[i].write = true;
  }
}

CompiledProgram::CompiledProgram(std::shared_ptr<Core> core, int lane, Recording recording,
                                 bool in_units)
    : core_(std::move(core)),
      label_(recording.label()),
      lane_(lane),
      on_stream_(recording.on_stream()),
      ports_(recording.ports()),
      plan_(recording, in_units),
      progress_(plan_) {
  held_.push_back(core_->new_variable(label_ + " as a whole"));
  held_.insert(held_.end(), recording.holds().begin(), recording.holds().end());
  if (!on_stream_) return;
  events.resize(plan_.ports.size());
  issued.resize(plan_.ports.size());
  graphs.resize(plan_.units.size());
}

void CompiledProgram::drop(CompiledProgram* program) {
  if (program->core_->orphan(*program)) delete program;
}

std::shared_ptr<base::Event> IssuedWork::record(std::uint64_t operations) {
  operations += std::exchange(unrecorded_, 0);
  operations_ += operations;
  points_.push_back({stream_.record(), operations});
  const std::shared_ptr<base::Event> recorded = points_.back().event;
  while (!points_.empty()) {
    if (!points_.front().event->passed()) {
      if (operations_ <= operations_max_) break;
      // An error surfaces where the results are read.
      static_cast<void>(points_.front().event->wait_on_host());
    }
    operations_ -= points_.front().operations;
    points_.pop_front();
  }
  return recorded;
}

void IssuedWork::add(std::uint64_t operations) {
  unrecorded_ += operations;
  constexpr std::uint64_t kParts = 8;
  if (unrecorded_ > operations_max_ / kParts) record(0);
}

Program Core::compile(Recording recording) {
  const int lane = find_lane(recording.lane(),
                             recording.on_stream() ? OperationKind::stream : OperationKind::sync);
  for (const auto* list : {&recording.ports(), &recording.holds()}) {
    for (const Variable& variable : *list) {
      TROUPE_CHECK(owns(variable),
                   fmt::format("[{}] a variable is empty or of another engine", recording.label()));
    }
  }
  for (const Variable& held : recording.holds()) {
    const std::vector<Variable>& ports = recording.ports();
    TROUPE_CHECK(std::find(ports.begin(), ports.end(), held) == ports.end(),
                 fmt::format("[{}] a held variable is a port, too", recording.label()));
  }
  const bool in_units = recording.on_stream() && graph_stream(lane) != nullptr;
  return Program(new CompiledProgram(shared_from_this(), lane, std::move(recording), in_units));
}

base::GraphStream* Core::graph_stream(int lane) const {
  if (!options_.graphs || trace_) return nullptr;
  return dynamic_cast<base::GraphStream*>(lanes_[static_cast<std::size_t>(lane)].stream);
}

bool Core::orphan(CompiledProgram& program) {
  mutex_.lock();
  program.orphaned = true;
  const bool idle = program.pending == 0;
  mutex_.unlock();
  return idle;
}

void Core::push_replay(CompiledProgram& program, int priority) {
  entry_mutex_.lock();
  find_room(lanes_.front(), 0);
  entry_mutex_.unlock();
  std::unique_ptr<Replay> replay;
  mutex_.lock();
  if (program.free.empty()) {
    mutex_.unlock();
    replay = std::make_unique<Replay>(program);
    mutex_.lock();
  } else {
    replay = std::move(program.free.back());
    program.free.pop_back();
  }
  ++program.pending;
  submit(*replay.release(), priority);
  leave();
}

void Core::submit(Replay& replay, int priority) {
  CompiledProgram& program = replay.program;
  OperationState& whole = replay.operation;
  whole.priority = priority;
  whole.phase = OperationPhase::blocked;
  replay.ended = 0;
  const std::size_t ports = program.plan().ports.size();
  entry_mutex_.lock();
  const std::uint64_t before = inbox_.count();
  whole.serial = next_serial();
  pushed_.store(pushed_.load(std::memory_order_relaxed) + program.plan().operations.size(),
                std::memory_order_relaxed);
  for (std::size_t i = 0; i <= ports; ++i) {
    for (Use& use : (i < ports ? replay.ports[i] : whole).uses()) {
      if (use.write) DependencyGraph::raise_version(use.variable);
    }
  }
  entry_mutex_.unlock();
  queue_pushed(before);
  link_pending(&whole);
  OperationList unblocked;
  for (std::size_t i = 0; i < ports; ++i) {
    OperationState& port = replay.ports[i];
    port.serial = whole.serial;
    port.phase = OperationPhase::blocked;
    if (graph_.append(&port)) unblocked.append(&port);
  }
  if (graph_.append(&whole)) unblocked.append(&whole);
  advance(unblocked);
}

void Core::grant_port(OperationState* port) {
  Replay& replay = *port->replay;
  port->phase = OperationPhase::ready;
  replay.granted.append(port);
  replay.news.store(true, std::memory_order_relaxed);  // the mutex hands the list over
  if (!std::exchange(replay.parked, false)) return;
  replay.operation.phase = OperationPhase::ready;
  make_ready(&replay.operation);
}

void Core::take_granted(Replay& replay) {
  CompiledProgram& program = replay.program;
  replay.news.store(false, std::memory_order_relaxed);
  while (OperationState* port = replay.granted.take()) {
    const auto index = static_cast<std::uint32_t>(port - replay.ports.get());
    port->phase = OperationPhase::running;
    if (program.on_stream()) {
      graph_.stream_events(port, program.events[index]);
      remember_stream_failures();
      program.issued[index] = false;
    }
    program.progress().grant(index, port->inline_uses[0].variable->failure);
  }
}

void Core::begin_replay(Replay& replay, ReplayThread& thread) {
  CompiledProgram& program = replay.program;
  replay.begun = true;
  program.entered = ReplayProgress::kNone;
  program.progress().begin();
  if (!program.on_stream()) return;
  std::vector<std::shared_ptr<base::Event>> events;
  graph_.stream_events(&replay.operation, events);
  for (const std::shared_ptr<base::Event>& event : events) thread.stream->wait_for(event);
}

void Core::run_replay(OperationState* operation, ReplayThread& thread) {
  Replay& replay = *operation->replay;
  operation->phase = OperationPhase::running;
  if (!replay.begun) begin_replay(replay, thread);
  bool ran = false;
  for (;;) {
    queue_pushed();
    take_granted(replay);
    leave();
    const bool overtaken = run_inner_operations(replay, thread, ran);
    const bool done = replay.program.progress().done();
    std::shared_ptr<base::Event> event;
    if (thread.issued != nullptr && replay.program.on_stream()) {
      if (done || !replay.program.progress().released().empty()) event = thread.issued->record(0);
    }
    mutex_.lock();
    settle(replay, event);
    if (done) return end_replay(replay, event);
    if (overtaken) {
      operation->phase = OperationPhase::ready;
      return make_ready(operation);
    }
    if (replay.program.progress().may_go_on() || !replay.granted.empty()) continue;
    operation->phase = OperationPhase::blocked;
    replay.parked = true;
    return;
  }
}

// Runs until the mutex is needed. True: something that is ready on the lane goes first. `ran` says
// whether anything has run since the replay's turn came: else two of them would give way for ever.
bool Core::run_inner_operations(Replay& replay, ReplayThread& thread, bool& ran) {
  ReplayProgress& progress = replay.program.progress();
  // Among equals the oldest is first, but of priority 0, where they take turns (ReadyQueue).
  const int priority = replay.operation.priority;
  const int first = priority == 0 ? 0 : priority + 1;
  for (;;) {
    if (ran && thread.ready_priority != nullptr &&
        thread.ready_priority->load(std::memory_order_relaxed) >= first) {
      return true;
    }
    const Range quiet = progress.quiet();
    if (quiet.begin < quiet.end) {
      progress.end_quiet(run_quiet(replay.program, quiet, first, thread));
    } else {
      if (replay.news.load(std::memory_order_relaxed)) return false;
      const std::uint32_t index = progress.next();
      if (index == ReplayProgress::kNone) return false;
      run_unit(replay.program, index, thread);
      progress.end(index);
      if (!progress.released().empty()) return false;
    }
    ran = true;
    if (progress.done() || (thread.ready_priority != nullptr && !inbox_.empty())) return false;
  }
}

// True: something was pushed, or something is ready whose priority is `first` at least.
bool Core::is_overtaken(const ReplayThread& thread, int first) const {
  return thread.ready_priority != nullptr &&
         (!inbox_.empty() || thread.ready_priority->load(std::memory_order_relaxed) >= first);
}

// Gives how many it ran: one or more, fewer than all when somebody else may go first.
std::uint32_t Core::run_quiet(CompiledProgram& program, Range units, int first,
                              ReplayThread& thread) {
  if (!trace_ && !program.on_stream()) return run_plain(program, units, first, thread);
  std::uint32_t index = units.begin;
  do {
    run_unit(program, index, thread);
  } while (++index < units.end && !is_overtaken(thread, first));
  return index - units.begin;
}

// The same off streams, where each operation is a unit, and untraced: most of the time between
// short operations is spent here.
std::uint32_t Core::run_plain(CompiledProgram& program, Range units, int first,
                              ReplayThread& thread) {
  const ReplayProgress& progress = program.progress();
  const std::span<PlannedOperation> planned(program.plan().operations);
  std::uint32_t index = units.begin;
  do {
    if (index + kAhead < planned.size()) __builtin_prefetch(&planned[index + kAhead]);
    PlannedOperation& operation = planned[index];
    if (cancelling_.load(std::memory_order_relaxed) || progress.has_failures()) {
      run_inner(program, operation, index, thread);
      continue;
    }
    ++program.ended;
    base::Status status = guarded(operation.function, operation.name, thread.context);
    if (!status.ok()) spread_inner(program, operation, std::move(status));
  } while (++index < units.end && !is_overtaken(thread, first));
  return index - units.begin;
}

void Core::run_unit(CompiledProgram& program, std::uint32_t index, ReplayThread& thread) {
  if (thread.graph_stream != nullptr && issue_as_graph(program, index, thread)) return;
  const Range operations = program.plan().units[index].operations;
  std::vector<PlannedOperation>& planned = program.plan().operations;
  for (std::uint32_t i = operations.begin; i < operations.end; ++i) {
    if (i + kAhead < planned.size()) __builtin_prefetch(&planned[i + kAhead]);
    run_inner(program, planned[i], index, thread);
  }
}

// False: nothing was issued but what makes the addresses ready.
bool Core::issue_as_graph(CompiledProgram& program, std::uint32_t index, ReplayThread& thread) {
  if (!program.on_stream()) return false;
  const Range range = program.plan().units[index].operations;
  const std::span operations(program.plan().operations.data() + range.begin,
                             range.end - range.begin);
  if (operations.size() < 2) return false;
  UnitGraphs& graphs = program.graphs[index];
  if (graphs.gave_up() || program.progress().has_failures() ||
      cancelling_.load(std::memory_order_relaxed)) {
    return false;
  }
  enter_unit(program, index, thread);
  const StreamScope scope(thread);
  program.addresses.clear();
  const auto leave = [&](const base::Status& why) {
    if (why.code() == base::Errc::resource_exhausted) {  // says nothing of other times
      graphs.put_off();
      return false;
    }
    base::log_info("{} is issued operation by operation from '{}' on: {}", program.label(),
                   operations.front().name, why.text());
    graphs.give_up();
    return false;
  };
  // What fails below fails once more where the operation is issued alone, and is told there.
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    SyncFunction ready = [&](RunContext& context) {
      return program.plan().addresses[i](context, program.addresses);
    };
    if (!guarded(ready, program.plan().operations[i].name, thread.context).ok()) return false;
  }
  const UnitGraphs::Way way = graphs.choose(program.addresses);
  if (way == UnitGraphs::Way::issue) return false;
  if (way == UnitGraphs::Way::write_down) {
    base::Result<std::shared_ptr<base::StreamGraph>> graph = write_down(operations, thread);
    if (!graph.ok()) return leave(graph.status());
    graphs.keep(*std::move(graph));
  }
  const base::Status launched = thread.graph_stream->launch(graphs.graph());
  if (!launched.ok()) return leave(launched);
  program.ended += operations.size();
  program.in_graphs += operations.size();
  thread.issued->add(operations.size());
  return true;
}

void Core::run_inner(CompiledProgram& program, PlannedOperation& operation, std::uint32_t unit,
                     ReplayThread& thread) {
  const ReplayProgress& progress = program.progress();
  ++program.ended;
  if (cancelling_.load(std::memory_order_relaxed) || progress.has_failures()) {
    if (skip_inner(program, operation)) return;
  }
  base::Status status = trace_ ? trace_inner(program, operation, unit, thread)
                               : call_inner(program, operation, unit, thread);
  if (!status.ok() || progress.has_failures()) {
    spread_inner(program, operation, std::move(status));
  }
}

// True: the operation inherits an error, which has reached what it writes.
bool Core::skip_inner(CompiledProgram& program, const PlannedOperation& operation) {
  std::shared_ptr<Failure> failure;
  if (cancelling_.load(std::memory_order_relaxed)) {
    failure = cancelled_failure();
  } else if (const auto* inherited = program.progress().inherited(operation)) {
    failure = *inherited;
  }
  if (!failure) return false;
  ++program.skipped;
  program.progress().spread(operation, failure);
  return true;
}

base::Status Core::call_inner(CompiledProgram& program, PlannedOperation& operation,
                              std::uint32_t unit, ReplayThread& thread) {
  if (program.on_stream()) return issue_inner(program, operation, unit, thread);
  return guarded(operation.function, operation.name, thread.context);
}

base::Status Core::trace_inner(CompiledProgram& program, PlannedOperation& operation,
                               std::uint32_t unit, ReplayThread& thread) {
  std::string_view detail;
  thread.context.detail = &detail;
  const std::int64_t begin_ns = clock_.now_ns();
  base::Status status = call_inner(program, operation, unit, thread);
  const TracedRun traced = thread.times != nullptr ? kIssue : TracedRun{operation.name, detail};
  trace_->add_run(traced, thread.row, begin_ns, clock_.now_ns());
  thread.context.detail = nullptr;
  return status;
}

void Core::spread_inner(CompiledProgram& program, const PlannedOperation& operation,
                        base::Status status) {
  std::shared_ptr<Failure> failure;
  if (!status.ok()) {
    failure = std::make_shared<Failure>(Failure{std::move(status)});
    program.failures.push_back(failure);
  }
  program.progress().spread(operation, failure);
}

// What the unit's ports wait for comes before the first operation of it that is issued.
void Core::enter_unit(CompiledProgram& program, std::uint32_t index, ReplayThread& thread) {
  if (std::exchange(program.entered, index) == index) return;
  for (const std::uint32_t port : program.plan().ports_of(program.plan().units[index])) {
    for (const std::shared_ptr<base::Event>& event : program.events[port]) {
      thread.stream->wait_for(event);
    }
    program.events[port].clear();
    program.issued[port] = true;
  }
}

base::Status Core::issue_inner(CompiledProgram& program, PlannedOperation& operation,
                               std::uint32_t unit, ReplayThread& thread) {
  enter_unit(program, unit, thread);
  base::Status status;
  {
    const StreamScope scope(thread);
    if (thread.times != nullptr) thread.times->begin();
    status = guarded(operation.function, operation.name, thread.context);
    if (thread.times != nullptr) thread.times->end({operation.name, *thread.context.detail});
  }
  if (thread.issued != nullptr) {
    thread.issued->add();
    return status;
  }
  base::Status done = thread.stream->record()->wait_on_host();
  return status.ok() ? done : status;
}

std::shared_ptr<Failure> Core::cancelled_failure() {
  mutex_.lock();
  std::shared_ptr<Failure> failure = cancelled_;
  mutex_.unlock();
  return failure;
}

// Counts what ended, remembers its errors and lets its ports go.
void Core::settle(Replay& replay, const std::shared_ptr<base::Event>& event) {
  CompiledProgram& program = replay.program;
  const LaneInfo& lane = lanes_[static_cast<std::size_t>(program.lane())];
  LaneCounters& of_kind = counters_.lanes[static_cast<std::size_t>(lane.lane.kind)];
  const std::uint64_t ended = std::exchange(program.ended, 0);
  const std::uint64_t skipped = std::exchange(program.skipped, 0);
  replay.ended += ended;
  counters_.completed += ended;
  of_kind.completed += ended;
  counters_.skipped += skipped;
  of_kind.skipped += skipped;
  of_kind.in_graphs += std::exchange(program.in_graphs, 0);
  counters_.failed += program.failures.size();
  of_kind.failed += program.failures.size();
  completed_.store(counters_.completed, std::memory_order_relaxed);
  for (const std::shared_ptr<Failure>& failure : program.failures) remember(failure);
  program.failures.clear();
  std::vector<std::uint32_t>& released = program.progress().released();
  OperationList unblocked;
  for (const std::uint32_t port : released) release_port(replay, port, event, unblocked);
  released.clear();
  if (pushers_waiting_ > 0) tell_pushers(false);
  advance(unblocked);
}

void Core::release_port(Replay& replay, std::uint32_t index,
                        const std::shared_ptr<base::Event>& event, OperationList& unblocked) {
  CompiledProgram& program = replay.program;
  OperationState& port = replay.ports[index];
  const Use& use = port.inline_uses[0];
  if (use.write) graph_.carry(use.variable, program.progress().failure_of_port(index));
  if (event != nullptr && program.issued[index]) {
    port.event = {port.lane, event};
    graph_.record_event(&port);
    port.event = {};
  }
  graph_.release(&port, unblocked);
}

// What functions captured goes before their last replay counts as done.
void Core::end_replay(Replay& replay, const std::shared_ptr<base::Event>& event) {
  CompiledProgram& program = replay.program;
  const bool last = program.orphaned && program.pending == 1;
  if (last) {
    leave();
    for (PlannedOperation& operation : program.plan().operations) operation.function.reset();
    program.plan().addresses.clear();
    program.graphs.clear();
    mutex_.lock();
  }
  OperationState& whole = replay.operation;
  if (event != nullptr) {
    whole.event = {whole.lane, event};
    graph_.record_event(&whole);
    lane_events_[static_cast<std::size_t>(whole.lane)] = event;
    whole.event = {};
  }
  OperationList unblocked;
  graph_.release(&whole, unblocked);
  unlink_pending(&whole);
  replay.begun = false;
  program.free.emplace_back(&replay);
  --program.pending;
  advance(unblocked);
  if (!last) return;
  leave();
  delete &program;
  mutex_.lock();
}

}  // namespace troupe::engine
