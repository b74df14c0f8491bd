// SPDX-License-Identifier: Apache-2.0
// Variable: the tag of one source unit (array, random generator, scratch space). A counted handle;
// the engine's queue of readers and writers hangs behind it. Any thread may copy and drop handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace troupe::engine {

struct VariableState;

/// A counted handle on a variable of one engine. A handle that outlives its engine is inert: it may
/// only be copied, asked and dropped.
class Variable {
 public:
  Variable() = default;
  explicit Variable(VariableState* state);  // takes over one count
  Variable(const Variable& other);
  Variable(Variable&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Variable& operator=(Variable other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Variable();

  explicit operator bool() const { return state_ != nullptr; }
  /// True while the engine that made it stands; false for an empty handle. Whoever may outlive an
  /// engine asks this before it calls the engine.
  bool engine_stands() const;
  /// How many operations that write it have been pushed so far: its version. 0 for an empty handle.
  /// Any thread.
  std::uint64_t version() const;
  /// True while it carries an error that wait() would return. Operations that have not ended yet
  /// may change that. Any thread.
  bool has_error() const;
  VariableState* state() const { return state_; }
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

 private:
  VariableState* state_ = nullptr;
};

}  // namespace troupe::engine
