// SPDX-License-Identifier: Apache-2.0
// Small helpers of the engine's tests: both kinds of engine, gates that hold a lane, one-line
// operations.
#pragma once

#include <chrono>
#include <condition_variable>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace troupe::engine {

inline const Lane kCompute{{}, LaneKind::compute};
inline const Lane kCopy{{}, LaneKind::copy};
inline const Lane kPriority{{}, LaneKind::priority};
inline const Lane kDelayed{{base::DeviceKind::delayed, 0}, LaneKind::compute};

/// Holds a function until open() is called.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }
  /// False when nobody opened it for `seconds`.
  bool pass_within(int seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(seconds), [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// An engine with its clock.
struct Fixture {
  explicit Fixture(bool threaded, const EngineOptions& options = {})
      : engine(threaded ? make_threaded_engine(options, clock)
                        : make_serial_engine(options, clock)) {}

  void push(std::string_view name, std::vector<Variable> reads, std::vector<Variable> writes,
            SyncFunction function, Lane lane = kCompute) {
    engine->push({.name = name, .reads = reads, .writes = writes, .lane = lane},
                 std::move(function));
  }
  void push_async(std::string_view name, std::vector<Variable> reads, std::vector<Variable> writes,
                  AsyncFunction function, Lane lane = kPriority) {
    engine->push_async({.name = name, .reads = reads, .writes = writes, .lane = lane},
                       std::move(function));
  }
  void push_stream(std::string_view name, std::vector<Variable> reads, std::vector<Variable> writes,
                   StreamFunction function, Lane lane = kDelayed) {
    engine->push_stream({.name = name, .reads = reads, .writes = writes, .lane = lane},
                        std::move(function));
  }
  /// Holds `variable`, and its lane, until `gate` is open.
  void push_gate(Gate& gate, const Variable& variable) {
    push("gate", {}, {variable}, [&gate](RunContext&) {
      gate.pass();
      return base::Status();
    });
  }
  Variable variable(std::string_view label) { return engine->new_variable(label); }

  base::SteadyClock clock;
  std::unique_ptr<Engine> engine;
};

}  // namespace troupe::engine
