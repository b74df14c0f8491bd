// SPDX-License-Identifier: Apache-2.0
// DependencyGraph: who may use which variable when, which errors and stream events a variable
// carries. It runs nothing and knows no thread; the caller holds the core's mutex throughout.
// It owns the pool of variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/state.h"

namespace troupe::engine {

/// Who has each variable, and who waits for it.
class DependencyGraph {
 public:
  /// A free variable without handles.
  VariableState* take_variable();
  /// Called when the last handle is gone: frees the variable, at once or behind its last use. The
  /// caller drops the returned reference after it let go of the mutex.
  std::shared_ptr<Core> orphan(VariableState* variable);

  /// Notes in `operation` what it uses, and raises versions. A variable named twice is one use;
  /// written and read is a write that reads. Called by one pusher at a time, not under the mutex.
  static void name_uses(OperationState* operation, const Operation& request);
  /// `variable` has one more write pushed. By one pusher at a time.
  static void raise_version(VariableState* variable);
  /// Gives `operation` those of its variables that are free; it waits in the queues of the others.
  /// True when nothing blocks it.
  bool append(OperationState* operation);
  /// Called before `operation` runs. Reads the oldest waiting use of each of its variables, and
  /// asks for the operation of that use and for the use behind it: release() will need most of
  /// them, and among thousands of pending operations they are seldom in the cache.
  static void ask_for_successors(OperationState* operation);
  /// Lets go of all uses of a finished operation; the operations that this unblocks join
  /// `unblocked`.
  void release(OperationState* operation, OperationList& unblocked);

  /// Some variable has carried an error or an event; never false again. Until then the three
  /// functions below have nothing to look for.
  bool carries() const { return carries_; }
  /// The first error, in the order writes then reads, that the operation inherits, or null.
  const std::shared_ptr<Failure>* inherited(OperationState* operation) {
    return carries_ ? find_inherited(operation) : nullptr;
  }
  /// A finished operation's error (null: none) reaches the variables it wrote.
  void settle_errors(OperationState* operation, const std::shared_ptr<Failure>& failure) {
    if (carries_ || failure) spread(operation, failure);
  }
  /// `variable` carries `failure` (null: none) from now on.
  void carry(VariableState* variable, const std::shared_ptr<Failure>& failure);

  /// True when a host function of `operation` must still wait for an event: operation->event.
  bool host_event(OperationState* operation) { return carries_ && find_host_event(operation); }
  /// Events of other lanes that `operation` must order its own stream lane behind.
  void stream_events(OperationState* operation, std::vector<std::shared_ptr<base::Event>>& events);
  /// `operation` issued its work on a stream: its variables carry operation->event.
  void record_event(OperationState* operation);
  /// Forgets passed events of all variables and keeps their errors.
  void absorb_passed_events();

  /// Failures found in passed events since the last call.
  std::vector<std::shared_ptr<Failure>> take_stream_failures() {
    return std::exchange(stream_failures_, {});
  }

 private:
  static constexpr std::size_t kChunk = 64;
  /// The three lists of Operation.
  enum class Access : std::uint8_t { read, write, overwrite };

  /// `uses` and one more behind them, unless it names the variable already.
  static std::span<Use> name_use(std::span<Use> uses, VariableState* variable, Access access,
                                 std::uint64_t serial);
  const std::shared_ptr<Failure>* find_inherited(OperationState* operation);
  void spread(OperationState* operation, const std::shared_ptr<Failure>& failure);
  bool find_host_event(OperationState* operation);
  static void name_again(std::span<Use> uses, const VariableState* variable, Access access);
  /// Grants the oldest waiting use; the caller has set `writing`, or counted it in `readers`.
  void grant_first(VariableState* variable, OperationList& unblocked);
  /// Grants what may follow the last use of a variable that somebody waits for.
  void give_on(VariableState* variable, OperationList& unblocked);
  void absorb(VariableState* variable);
  void free_variable(VariableState* variable);

  bool carries_ = false;
  std::vector<std::unique_ptr<VariableState[]>> variable_chunks_;
  VariableState* free_variables_ = nullptr;
  std::vector<std::shared_ptr<Failure>> stream_failures_;
};

// Of each operation, pushed or run: worth no call.

inline bool DependencyGraph::append(OperationState* operation) {
  std::uint32_t blocked = 0;
  for (Use& use : operation->uses()) {
    VariableState& variable = *use.variable;
    use.granted = use.write ? !variable.in_use() : !variable.writing && !variable.first;
    if (use.granted) {
      variable.writing = use.write;
      variable.readers += use.write ? 0 : 1;
      continue;
    }
    ++blocked;
    use.operation = operation;
    use.next = nullptr;
    (variable.first == nullptr ? variable.first : variable.last->next) = &use;
    variable.last = &use;
  }
  operation->blocked = blocked;
  return blocked == 0;
}

inline void DependencyGraph::ask_for_successors(OperationState* operation) {
  for (const Use& use : operation->uses()) {
    const Use* const first = use.variable->first;
    if (first == nullptr) continue;
    __builtin_prefetch(first->operation, 1);
    __builtin_prefetch(first->next, 1);
  }
}

inline void DependencyGraph::grant_first(VariableState* variable, OperationList& unblocked) {
  Use& use = *variable->first;
  variable->first = use.next;
  use.granted = true;
  __builtin_prefetch(use.next, 1);
  if (--use.operation->blocked == 0) unblocked.append(use.operation);
}

inline void DependencyGraph::release(OperationState* operation, OperationList& unblocked) {
  for (Use& use : operation->uses()) {
    VariableState* const variable = use.variable;
    use.granted = false;
    if (use.write) {
      variable->writing = false;
    } else if (--variable->readers > 0) {
      continue;
    }
    if (variable->first != nullptr) {
      give_on(variable, unblocked);
    } else if (variable->orphaned) {
      free_variable(variable);
    }
  }
}

}  // namespace troupe::engine
