// SPDX-License-Identifier: Apache-2.0
// The pooled objects of the dependency graph: variables, operations, and the uses that join them.
// All fields are guarded by the core's mutex unless a comment says otherwise.
// Private to this folder.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/stream.h"
#include "engine/engine.h"

namespace troupe::engine {

class Core;
class Ticket;
struct OperationState;
struct Replay;

/// An error and everything it spread to; one object per origin, so that it is reported once.
struct Failure {
  base::Status status;
  bool reported = false;
};

/// Work that a stream was given and may not have done yet.
struct PendingEvent {
  int lane = -1;
  std::shared_ptr<base::Event> event;
};

/// What one operation does with one variable. A granted use is counted in its variable; one that is
/// not granted waits in the variable's queue. No use lies across two lines of a cache.
struct alignas(32) Use {
  VariableState* variable = nullptr;
  OperationState* operation = nullptr;  ///< while it waits
  Use* next = nullptr;                  ///< the next younger use that waits for it
  bool write = false;
  bool reads = false;       ///< the old value matters: its error is inherited
  bool overwrites = false;  ///< a write of the whole value: success clears the error
  bool granted = false;
};

/// What is behind a Variable: who has it, who waits. Freed to its pool when no handle and no use is
/// left. Pushers and lanes have a cache line each.
struct alignas(64) VariableState {
  std::atomic<std::uint32_t> handles{0};  ///< any thread
  std::atomic<std::uint64_t> version{0};  ///< writes pushed: set by pushers, read by any thread
  std::uint64_t named_by = 0;             ///< the newest push that names it: of pushers
  std::shared_ptr<Core> core;             ///< constant while a handle exists
  VariableState* link = nullptr;          ///< free list

  alignas(64) Use* first = nullptr;  ///< oldest use that waits
  Use* last = nullptr;               ///< newest that waits; valid while `first` is set
  std::uint32_t readers = 0;         ///< granted reads that are not released
  bool writing = false;              ///< a granted write is not released; there are no readers
  bool orphaned = false;             ///< no handle is left
  bool has_read_events = false;      ///< `read` is not empty
  std::shared_ptr<Failure> failure;
  PendingEvent written;  ///< the newest write, if a stream did it

  std::vector<PendingEvent> read;  ///< reads since `written`, the newest per stream lane
  std::string label;

  bool in_use() const { return writing || readers > 0 || first != nullptr; }
};

/// Which function of Engine pushed an operation. A replay is one operation that holds what its
/// program holds, and one of kind port for each port.
enum class OperationKind : std::uint8_t { sync, async, stream, wait, replay, port };

/// Where an operation is on its way.
enum class OperationPhase : std::uint8_t {
  blocked,         ///< an older operation holds one of its variables
  awaiting_event,  ///< a host function waits for a stream
  ready,           ///< in its lane's queue
  running,         ///< its function runs
};

/// A thread in Engine::wait, on its stack.
struct WaitNode {
  std::atomic<bool> done{false};  ///< set under the mutex, and looked at without it
  base::Status status;
};

/// One pushed operation, from push to release. A pusher fills it, then the core's mutex guards it.
/// Ordered by use: thousands may be pending, each line of a cache that two processors hand to each
/// other counts, and most operations touch the first three alone.
struct alignas(64) OperationState {
  static constexpr std::size_t kInlineUses = 6;

  OperationState* link = nullptr;      ///< of the list that it is in: submitted, ready, free ...
  OperationState* previous = nullptr;  ///< pending operations, in push order
  OperationState* next = nullptr;
  std::uint64_t serial = 0;  ///< number of the push
  std::string_view name;
  int priority = 0;
  std::uint32_t blocked = 0;  ///< uses that are not granted
  std::int8_t lane = -1;
  OperationKind kind = OperationKind::sync;
  OperationPhase phase = OperationPhase::blocked;
  bool on_stream = false;               ///< what it does is issued on its lane's stream
  bool has_bytes = false;               ///< `bytes` is not 0
  bool skipped = false;                 ///< `inherited` is set
  bool failed = false;                  ///< `outcome` is an error; of the thread that runs it
  std::atomic<std::int8_t> parties{0};  ///< async: who has not arrived, see `asynchronous`

  // Functions and outcome are owned by the thread that runs the operation; for async, by whoever
  // arrives second of the function's return and its completion.
  SyncFunction function;  ///< unless of kind async

  std::uint32_t use_count = 0;  ///< in more_uses when they are more than kInlineUses
  std::array<Use, kInlineUses> inline_uses;

  std::uint64_t bytes = 0;  ///< of the request
  base::Status outcome;
  AsyncFunction asynchronous;          ///< of kind async
  std::shared_ptr<Ticket> ticket;      ///< of kind async
  std::shared_ptr<Failure> inherited;  ///< why the function is skipped
  PendingEvent event;                  ///< what a host function waits for; what a stream recorded
  WaitNode* waiter = nullptr;          ///< of kind wait
  Replay* replay = nullptr;            ///< of kinds replay and port
  std::int64_t begin_ns = 0;           ///< when the function began; only while tracing
  std::vector<Use> more_uses;          ///< grows and stays

  std::span<Use> uses() {
    return {use_count > kInlineUses ? more_uses.data() : inline_uses.data(), use_count};
  }
};

/// Operations linked through `link`, first in, first out.
class OperationList {
 public:
  bool empty() const { return first_ == nullptr; }
  void append(OperationState* operation) {
    operation->link = nullptr;
    (first_ == nullptr ? first_ : last_->link) = operation;
    last_ = operation;
  }
  /// Null when empty.
  OperationState* take() {
    OperationState* operation = first_;
    if (operation != nullptr) first_ = operation->link;
    return operation;
  }

 private:
  OperationState* first_ = nullptr;
  OperationState* last_ = nullptr;
};

}  // namespace troupe::engine
