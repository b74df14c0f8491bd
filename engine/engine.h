// SPDX-License-Identifier: Apache-2.0
// The runtime dependency engine: operations name the variables they read and write; the engine
// runs each as soon as its variables allow. Readers of a variable run together, a writer runs
// alone, in push order. Arrays, random generators and scratch space are all variables. push() may
// be called from any thread; wait() only from threads that are neither engine nor actor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/device.h"
#include "base/slot_store.h"
#include "base/status.h"
#include "base/stream.h"
#include "engine/completion.h"
#include "engine/function.h"
#include "engine/variable.h"

namespace troupe::engine {

class Program;    // program.h
class Recording;  // program.h

/// What a lane is for. Each device has one lane of each kind; stream lanes exist where the device
/// has streams.
enum class LaneKind : std::uint8_t {
  compute,   ///< kernels: one thread that leads a team of `threads`
  copy,      ///< copies and file or network hand-overs
  priority,  ///< short urgent work; never waits behind compute
};

/// Names a lane of an engine.
struct Lane {
  base::Device device;
  LaneKind kind = LaneKind::compute;
};
/// Of the host, for work that moves bytes and computes next to nothing.
inline constexpr Lane kHostCopyLane{{}, LaneKind::copy};

/// What a running function may use. Valid during the call (for stream functions: during issue).
struct RunContext {
  int team = 1;                      ///< compute threads that this lane leads
  base::SlotStore* slots = nullptr;  ///< the lane's library handles
  base::Stream* stream = nullptr;    ///< set for stream functions only
  /// Where a trace is taken, a place for what else it shows of this run: a JSON object, in text
  /// that stands until the operation is done. Null: no trace, or an asynchronous function.
  std::string_view* detail = nullptr;
};

/// Done when it returns.
using SyncFunction = Function<base::Status(RunContext&)>;
/// Returns at once; `completion` is called exactly once, from any thread. No thread waits
/// meanwhile.
using AsyncFunction = Function<void(RunContext&, Completion)>;
/// Only issues work on context.stream; the lane records an event behind it.
using StreamFunction = Function<base::Status(RunContext&)>;

/// One unit of work. `name` must outlive the operation (a literal, or text owned by a longer-lived
/// plan).
struct Operation {
  std::string_view name;
  std::span<const Variable> reads;  ///< may repeat, may overlap the written ones (then it is both)
  /// Written in part, or changed: their old values matter, so their errors are inherited and stay.
  std::span<const Variable> writes;
  Lane lane;
  int priority = 0;  ///< higher runs first among operations that are ready
  /// Written as a whole, which clears their errors. One that is named in `reads` or `writes` too
  /// keeps its error.
  std::span<const Variable> overwrites = {};
  /// Memory that exists because this operation waits: its outputs, what its function owns.
  std::uint64_t bytes = 0;
  /// Takes no longer than to hand it to another thread. Where nothing blocks it and its CPU lane
  /// has nothing to do, the pushing thread runs it, unless that is an engine's or an actor's. So
  /// its function must take no lock that a pusher may hold.
  bool brief = false;
};

inline constexpr std::size_t kLaneKinds = 3;

/// Of all lanes of one kind, since start.
struct LaneCounters {
  std::uint64_t threads = 0;
  std::uint64_t queued = 0;     ///< operations ready, for which no thread is free
  std::uint64_t completed = 0;  ///< as in EngineCounters
  std::uint64_t failed = 0;
  std::uint64_t skipped = 0;
  std::uint64_t in_graphs = 0;  ///< of those completed, issued as parts of graphs
  std::int64_t busy_ns = 0;     ///< time of threads that did not sleep; 0 in a serial engine
};

/// Counters since start; sums over lanes.
struct EngineCounters {
  std::uint64_t pushed = 0;
  std::uint64_t completed = 0;                 ///< ended, with or without an error
  std::uint64_t failed = 0;                    ///< of these, ended with an error of their own
  std::uint64_t skipped = 0;                   ///< of these, not run because of an older error
  std::uint64_t pending = 0;                   ///< pushed, not completed
  std::uint64_t alone = 0;                     ///< begun straight, with nothing else pending
  std::uint64_t asynchronous_in_flight = 0;    ///< begun, waiting for their completion
  std::array<LaneCounters, kLaneKinds> lanes;  ///< by LaneKind
};

/// Limits and shape of an engine.
struct EngineOptions {
  int threads = 1;  ///< team of the CPU compute lane
  int copy_threads = 1;
  int priority_threads = 1;
  std::uint64_t engine_pending_operations_max = 65'536;  ///< push() waits above this
  /// The same for Operation::bytes, per device; one operation alone may hold more.
  std::uint64_t engine_pending_bytes_max = std::uint64_t{4} << 30;
  std::string thread_name = "engine";
  /// Streams of devices other than the CPU, one lane each; owned by the caller, outlive the engine.
  /// A device's first stream is its compute lane, the second its copy lane, the third its priority
  /// lane; kinds without a stream of their own use the first.
  std::vector<base::Stream*> streams;
  /// What programs issue on streams that can write it down (base::GraphStream) is issued as graphs
  /// from the second replay with the same addresses on. Not while a trace is taken.
  bool graphs = true;
  /// Operations issued on one stream and not done; its lane waits above this.
  std::uint64_t stream_operations_max = 1024;
  std::string trace_path;  ///< Chrome trace written at the end; empty: none
  std::uint64_t trace_events_max = 1'000'000;
};

/// Threaded and serial engines share this interface and give the same results.
/// A function that throws ends its operation with an error that names both: resource_exhausted for
/// std::bad_alloc, else internal.
/// The destructor waits for everything pushed, then joins its threads; call cancel() first where
/// completions may never come.
class Engine {
 public:
  virtual ~Engine() = default;

  /// A new variable; `label` appears in dump() and errors.
  virtual Variable new_variable(std::string_view label) = 0;
  /// True when new_variable() of this engine made it. Operations take no others (CHECK).
  virtual bool owns(const Variable& variable) const = 0;

  /// Pushes work. Does not wait for dependencies; waits only while a pending limit is exceeded.
  /// 1,024 operations ahead it lets the lanes catch up first, a millisecond at most. Engine and
  /// actor threads do neither. When a read variable carries an error, the function is
  /// skipped and that error moves to the written variables; an error the function returns does the
  /// same.
  virtual void push(const Operation& operation, SyncFunction function) = 0;
  virtual void push_async(const Operation& operation, AsyncFunction function) = 0;
  virtual void push_stream(const Operation& operation, StreamFunction function) = 0;

  /// Makes a program that can be replayed many times. CHECKs that ports and held variables are of
  /// this engine, that no variable is both, and that a program on a stream has one.
  virtual Program compile(Recording recording) = 0;

  /// Waits until everything pushed so far that writes `variable` is done; its error if it carries
  /// one. An error stays until an operation overwrites the whole variable. invalid_argument for a
  /// variable that this engine does not own.
  virtual base::Status wait(const Variable& variable) = 0;
  /// Waits until every operation pushed so far is done, on streams too; the first error that no
  /// wait() has reported (the later ones then count as reported; variables keep theirs).
  virtual base::Status wait_all() = 0;

  /// Completes every outstanding asynchronous operation with `cancelled`, and lets later ones fail
  /// so: for ending a job. Operations whose function has not begun are skipped with the same error.
  virtual void cancel(std::string_view reason) = 0;

  /// What waits on what, for people: one line per pending operation with its variables' holders.
  virtual std::string dump() const = 0;
  virtual EngineCounters counters() const = 0;
  /// Team size of a lane; part of plans, so results never depend on load.
  virtual int team(const Lane& lane) const = 0;
  /// True on a thread of this or any engine.
  static bool on_engine_thread();
};

/// Marks the calling thread as one that runs actors, for its life: wait() there is a CHECK failure
/// and push() never waits for room.
void mark_actor_thread();

/// Lanes with threads: one compute thread per device (leading its team), copy and priority pools.
std::unique_ptr<Engine> make_threaded_engine(const EngineOptions& options, base::Clock& clock);
/// Runs each function inside push(), in push order (asynchronous ones as far as their completions
/// come inline); for debugging and as the reference of the property test.
std::unique_ptr<Engine> make_serial_engine(const EngineOptions& options, base::Clock& clock);

}  // namespace troupe::engine
