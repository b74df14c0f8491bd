// SPDX-License-Identifier: Apache-2.0
// Programs: a recorded sequence of operations, compiled once and replayed many times. What inner
// operations hand to each other is resolved when the program is compiled; outside variables are
// ports, each of which a replay waits for where it is used first and releases behind its last use.
// A Recording belongs to the thread that makes it; a Program may be replayed from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace troupe::engine {

class CompiledProgram;

/// How inner operations name a value: an inner variable or a port of one Recording.
struct Slot {
  std::uint32_t number = 0;
};

/// Appends the addresses that an operation's function would use now; the errors that it would have.
using AddressFunction = Function<base::Status(RunContext&, std::vector<const void*>&)>;

/// One operation of a program. The three lists mean what they mean in Operation.
struct InnerOperation {
  std::string name;
  std::vector<Slot> reads;
  std::vector<Slot> writes;
  std::vector<Slot> overwrites;
  /// Called at each replay that does not skip it: never twice at once.
  SyncFunction function;
  /// On a stream, where as long as these addresses stay the same `function` issues the same work:
  /// such work may be written down and issued again without calling `function`
  /// (EngineOptions::graphs). Those of several operations are asked for before the first of their
  /// functions is called, and with its context. Empty: `function` is called at each replay.
  AddressFunction addresses;
};

/// What a program is compiled from: operations in the order in which they would be pushed.
class Recording {
 public:
  /// `label` appears in dump(). With `on_stream`, functions only issue work on their lane's stream.
  Recording(std::string_view label, const Lane& lane, bool on_stream = false);

  /// A new inner variable: it has no queue and no error that outlives a replay.
  Slot inner();
  /// An outside variable, which keeps its slot when it is named again. Operations that use it wait
  /// for it, one by one or, where they may go out as a graph, up to 64 neighbours together;
  /// outsiders have it back when the last of them has ended.
  Slot port(const Variable& variable);
  /// An outside variable that each replay writes as a whole: from before its first operation until
  /// behind its last one. For order alone: its errors neither matter nor change. No port.
  void hold(const Variable& variable);
  void add(InnerOperation operation);

  const std::string& label() const { return label_; }
  const Lane& lane() const { return lane_; }
  bool on_stream() const { return on_stream_; }
  /// Per slot, the place among `ports()`; -1: an inner variable.
  const std::vector<int>& slots() const { return slots_; }
  const std::vector<Variable>& ports() const { return ports_; }
  const std::vector<Variable>& holds() const { return holds_; }
  std::vector<InnerOperation>& operations() { return operations_; }

 private:
  std::string label_;
  Lane lane_;
  bool on_stream_;
  std::vector<int> slots_;
  std::vector<Variable> ports_;
  std::unordered_map<const VariableState*, std::uint32_t> port_slots_;
  std::vector<Variable> holds_;
  std::vector<InnerOperation> operations_;
};

/// A handle on a compiled program: move-only, made by Engine::compile. It may be dropped while
/// replays are pending: they run, then the functions are destroyed. When the engine has ended it
/// may only be asked and dropped.
class Program {
 public:
  Program() = default;
  explicit Program(CompiledProgram* program) : program_(program) {}
  Program(Program&& other) noexcept : program_(std::exchange(other.program_, nullptr)) {}
  Program& operator=(Program&& other) noexcept {
    std::swap(program_, other.program_);
    return *this;
  }
  ~Program();

  explicit operator bool() const { return program_ != nullptr; }
  /// True while the engine that compiled it stands; false for an empty handle.
  bool engine_stands() const;
  /// Operations of one replay.
  std::size_t size() const;

  /// Pushes all operations at once: what is pushed later and uses a port or a hold comes behind
  /// them. Begins when the replay before it has ended. Waits as Engine::push does.
  void replay(int priority = 0);

 private:
  CompiledProgram* program_ = nullptr;
};

}  // namespace troupe::engine
