// SPDX-License-Identifier: Apache-2.0
// The serial engine: whoever ends a section runs what is ready, one operation at a time, in the
// order in which operations became ready (push order, as far as completions come inline). Streams
// are waited for at once. For debugging and as the reference of tests.
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "engine/core.h"
#include "engine/replay.h"
#include "engine/thread_role.h"

namespace troupe::engine {

namespace {

class SerialCore final : public Core {
 public:
  SerialCore(const EngineOptions& options, base::Clock& clock)
      : Core(options, clock), slots_(lanes().size()) {}

 private:
  void make_ready(OperationState* operation) override TROUPE_REQUIRES(mutex_) {
    ready_.append(operation);
  }
  void await_event(OperationState*) override TROUPE_REQUIRES(mutex_) {
    TROUPE_CHECK(false, "the serial engine has waited for every event");
  }
  void leave() override TROUPE_RELEASE(mutex_) {
    if (draining_ || ready_.empty()) {
      mutex_.unlock();
      return;
    }
    drain();
  }
  bool idles(int) const override { return false; }  // whoever pushes runs everything
  void stop_threads() override {}

  void drain() TROUPE_RELEASE(mutex_);
  void run_inner_of(OperationState* replay) TROUPE_REQUIRES(mutex_);
  bool run_one(OperationState* operation);

  std::vector<base::SlotStore> slots_;  // used by the draining thread only
  OperationList ready_ TROUPE_GUARDED_BY(mutex_);
  bool draining_ TROUPE_GUARDED_BY(mutex_) = false;
};

void SerialCore::drain() {
  const ThreadRoleScope role(ThreadRole::engine);
  draining_ = true;
  while (OperationState* operation = ready_.take()) {
    if (operation->kind == OperationKind::replay) {
      run_inner_of(operation);
      continue;
    }
    begin(operation);
    mutex_.unlock();
    const bool finished = run_one(operation);
    mutex_.lock();
    if (finished) finish(operation);
  }
  draining_ = false;
  mutex_.unlock();
}

void SerialCore::run_inner_of(OperationState* replay) {
  const auto number = static_cast<std::size_t>(replay->lane);
  const LaneInfo& lane = lanes()[number];
  RunContext context{.team = lane.team, .slots = &slots_[number]};
  ReplayThread thread{context, replay->lane + 1, lane.stream};
  mutex_.unlock();
  if (lane.stream != nullptr) lane.stream->attach();
  base::lead_team(lane.team, [&] {
    mutex_.lock();
    run_replay(replay, thread);
    mutex_.unlock();
  });
  mutex_.lock();
}

bool SerialCore::run_one(OperationState* operation) {
  const LaneInfo& lane = lanes()[static_cast<std::size_t>(operation->lane)];
  RunContext context{.team = lane.team,
                     .slots = &slots_[static_cast<std::size_t>(operation->lane)]};
  const bool on_stream = operation->on_stream && !operation->skipped;
  if (on_stream) {
    context.stream = lane.stream;
    // Whoever pushes may drain: no lane of another engine, which has its own stream.
    lane.stream->attach();
  }
  bool finished = false;
  base::lead_team(lane.team, [&] { finished = run(operation, context, operation->lane + 1); });
  if (on_stream) {
    base::Status done = lane.stream->record()->wait_on_host();
    if (!operation->failed && !done.ok()) {
      operation->failed = true;
      operation->outcome = std::move(done);
    }
  }
  return finished;
}

}  // namespace

std::shared_ptr<Core> make_serial_core(const EngineOptions& options, base::Clock& clock) {
  return std::make_shared<SerialCore>(options, clock);
}

}  // namespace troupe::engine
