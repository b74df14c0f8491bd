// SPDX-License-Identifier: Apache-2.0
// CompiledProgram: a plan with its ports' variables and its replays. Replay: one that is pushed.
// ReplayThread: what the thread that runs inner operations has. Core's functions that push and run
// replays are in replay.cc.
// Private to this folder.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/graph_stream.h"
#include "base/stream.h"
#include "engine/core.h"
#include "engine/program.h"
#include "engine/replay_plan.h"
#include "engine/state.h"
#include "engine/stream_times.h"
#include "engine/unit_graphs.h"

namespace troupe::engine {

/// A pending or recycled replay. Guarded by the core's mutex unless a comment says otherwise.
struct Replay {
  explicit Replay(CompiledProgram& of);

  CompiledProgram& program;
  OperationState operation;                 ///< of kind replay: it holds what the program holds
  std::unique_ptr<OperationState[]> ports;  ///< of kind port, each with one use
  OperationList granted;                    ///< ports that the running thread does not know of yet
  std::atomic<bool> news{false};            ///< `granted` has some; read without the mutex
  bool begun = false;
  bool parked = false;  ///< begun, and every operation left waits for a port
  std::uint64_t ended = 0;
};

/// What a program owns. Deleted when its handle and its last replay are gone.
class CompiledProgram {
 public:
  /// `in_units`: neighbours may be issued as one graph.
  CompiledProgram(std::shared_ptr<Core> core, int lane, Recording recording, bool in_units);
  CompiledProgram(const CompiledProgram&) = delete;
  CompiledProgram& operator=(const CompiledProgram&) = delete;

  /// The handle is gone. Deletes the program, or leaves that to its last replay.
  static void drop(CompiledProgram* program);

  Core& core() const { return *core_; }
  ReplayPlan& plan() { return plan_; }
  const ReplayPlan& plan() const { return plan_; }
  ReplayProgress& progress() { return progress_; }
  const std::string& label() const { return label_; }
  int lane() const { return lane_; }
  bool on_stream() const { return on_stream_; }
  /// Those of the recording, not only those of the plan.
  const std::vector<Variable>& ports() const { return ports_; }
  /// What a replay writes as a whole; the first of these orders the replays.
  const std::vector<Variable>& held() const { return held_; }

  // Guarded by the core's mutex.
  std::vector<std::unique_ptr<Replay>> free;
  std::uint64_t pending = 0;
  bool orphaned = false;  ///< the handle is gone

  // Of the thread that runs the replay.
  std::vector<std::shared_ptr<Failure>> failures;  ///< errors of functions, not remembered yet
  std::uint64_t ended = 0;                         ///< not counted yet
  std::uint64_t skipped = 0;
  std::uint64_t in_graphs = 0;
  /// Per port of a program on a stream: what its first user must wait for, and whether the stream
  /// has work that uses the port.
  std::vector<std::vector<std::shared_ptr<base::Event>>> events;
  std::vector<bool> issued;
  std::uint32_t entered = 0;  ///< the unit that was issued last
  /// Of a program on a stream: per unit, and the addresses that one would use.
  std::vector<UnitGraphs> graphs;
  std::vector<const void*> addresses;

 private:
  const std::shared_ptr<Core> core_;
  const std::string label_;
  const int lane_;
  const bool on_stream_;
  std::vector<Variable> ports_;
  std::vector<Variable> held_;
  ReplayPlan plan_;
  ReplayProgress progress_;
};

/// Bounds what one stream has been given and has not done. Of the thread that issues.
class IssuedWork {
 public:
  IssuedWork(base::Stream& stream, std::uint64_t operations_max)
      : stream_(stream), operations_max_(operations_max) {}
  /// Records an event behind the operations that were issued since the last one; waits while the
  /// stream has too many.
  std::shared_ptr<base::Event> record(std::uint64_t operations = 1);
  /// Operations were issued that need no event of their own.
  void add(std::uint64_t operations = 1);

 private:
  /// An event, and how many operations are between it and the one before.
  struct Point {
    std::shared_ptr<base::Event> event;
    std::uint64_t operations = 0;
  };

  base::Stream& stream_;
  const std::uint64_t operations_max_;
  std::deque<Point> points_;  // not known to have passed
  std::uint64_t operations_ = 0;
  std::uint64_t unrecorded_ = 0;
};

/// What the thread of a lane lends to a replay.
struct ReplayThread {
  RunContext& context;
  int row = 0;
  base::Stream* stream = nullptr;  ///< the lane's
  /// The same, where it writes graphs down and programs may use them; else null.
  base::GraphStream* graph_stream = nullptr;
  IssuedWork* issued = nullptr;  ///< null: each operation on the stream is waited for
  StreamTimes* times = nullptr;  ///< null: nobody asks when work runs on the stream
  /// The highest priority of what is ready on the lane; null: nothing overtakes a replay.
  const std::atomic<int>* ready_priority = nullptr;
};

}  // namespace troupe::engine
