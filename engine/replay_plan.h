// SPDX-License-Identifier: Apache-2.0
// ReplayPlan: what compiling a recording gives. ReplayProgress: which of its operations may run
// next, and the errors of its values, during one replay. Neither knows locks, lanes or the graph;
// a progress belongs to the thread that runs the replay.
// Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/program.h"
#include "engine/state.h"

namespace troupe::engine {

/// How one operation uses one slot: the lists of an Operation, joined as the graph joins them.
struct SlotUse {
  std::uint32_t slot = 0;
  bool write = false;
  bool reads = false;       ///< the old value matters: its error is inherited
  bool overwrites = false;  ///< a write of the whole value: success clears the error
};

/// A part of a list.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// An operation of a plan.
struct PlannedOperation {
  SyncFunction function;
  Range uses;  ///< among uses
  std::string name;
};

/// Operations that wait for ports and for each other as one: a single one, or neighbours whose work
/// may be issued as one graph.
struct PlannedUnit {
  Range operations;             ///< among operations
  Range ports;                  ///< among port_list
  Range before, after;          ///< among edges: units that it waits for, that wait for it
  std::uint32_t quiet_end = 0;  ///< all from this one to there have no ports; itself where it has
};

/// A port of a plan that some operation uses.
struct PlannedPort {
  std::uint32_t slot = 0;
  std::uint32_t variable = 0;  ///< among the recording's ports
  bool write = false;          ///< some operation writes it
  Range users;                 ///< among user_list: its units, in order
};

/// Constant once made, but for what the functions keep.
struct ReplayPlan {
  /// Operations of one graph: enough that its launch costs little beside theirs, few enough that
  /// gradients leave long before the backward pass has ended.
  static constexpr std::size_t kGraphOperationsMax = 64;

  /// `in_units`: whether neighbours may become units.
  ReplayPlan(Recording& recording, bool in_units);

  std::span<const std::uint32_t> ports_of(const PlannedUnit& unit) const {
    return part(port_list, unit.ports);
  }

  template <typename T>
  static std::span<const T> part(const std::vector<T>& list, Range range) {
    return {list.data() + range.begin, list.data() + range.end};
  }

  std::vector<PlannedOperation> operations;
  std::vector<AddressFunction> addresses;  ///< of each operation, where some may join; else none
  std::vector<PlannedUnit> units;
  std::vector<PlannedPort> ports;
  std::vector<SlotUse> uses;
  std::vector<std::uint32_t> port_list;
  std::vector<std::uint32_t> user_list;
  std::vector<std::uint32_t> edges;
  std::size_t slot_count = 0;
};

/// Runs a plan's units in program order, but for those that wait for a port and what depends on
/// them. As long as nothing waits, a unit costs no look at its neighbours.
class ReplayProgress {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit ReplayProgress(const ReplayPlan& plan);

  /// A new replay: no port granted, nothing done, no errors.
  void begin();
  /// `port` may be used from now on; it carries `failure` (null: none).
  void grant(std::uint32_t port, std::shared_ptr<Failure> failure);
  /// The first unit that may run and has not begun; kNone when all others wait for ports. The
  /// caller ends it before it asks again.
  std::uint32_t next() {
    if (nothing_waits() && cursor_ < plan_.units.size()) return cursor_++;
    return next_of_many();
  }
  /// Units that may run one behind the other from now on, without a question in between: nothing
  /// waits, and they have no ports. Empty where the next one is not of this kind.
  Range quiet() const {
    if (!nothing_waits() || cursor_ == plan_.units.size()) return {};
    return {cursor_, plan_.units[cursor_].quiet_end};
  }
  /// The first `count` of quiet() have run.
  void end_quiet(std::uint32_t count) {
    cursor_ += count;
    left_ -= count;
  }
  bool done() const { return left_ == 0; }
  /// False when next() would give kNone; it may give kNone all the same.
  bool may_go_on() const { return !runnable_.empty() || cursor_ < plan_.units.size(); }

  /// True while an error or none at all has to be looked at.
  bool has_failures() const { return has_failures_; }
  /// The first error that an operation inherits, or null.
  const std::shared_ptr<Failure>* inherited(const PlannedOperation& operation) const;
  /// `operation` ended with `failure` (null: none), which reaches what it wrote.
  void spread(const PlannedOperation& operation, const std::shared_ptr<Failure>& failure);
  /// The unit has ended. Ports that nobody uses any more join released().
  void end(std::uint32_t unit) {
    --left_;
    if (deferred_count_ > 0) end_deferred(unit);
    for (const std::uint32_t port : plan_.ports_of(plan_.units[unit])) {
      if (--users_left_[port] == 0) released_.push_back(port);
    }
  }

  /// Ports to let go; the caller clears the list.
  std::vector<std::uint32_t>& released() { return released_; }
  /// What a port's variable carries now.
  const std::shared_ptr<Failure>& failure_of_port(std::uint32_t port) const {
    return failures_[plan_.ports[port].slot];
  }

 private:
  /// All units before cursor_ have run, the others need no look.
  bool nothing_waits() const { return ungranted_ == 0 && deferred_count_ == 0; }
  std::uint32_t next_of_many();
  void end_deferred(std::uint32_t unit);
  bool runs_now(std::uint32_t unit);
  void settle_one(std::uint32_t unit);

  const ReplayPlan& plan_;
  std::uint32_t cursor_ = 0;  // units before it have run or are deferred
  std::uint32_t left_ = 0;
  std::uint32_t ungranted_ = 0;
  std::uint32_t deferred_count_ = 0;
  bool has_failures_ = false;
  std::vector<bool> granted_;              // per port
  std::vector<std::uint32_t> users_left_;  // per port
  std::vector<std::uint8_t> deferred_;     // per unit: passed by, not ended
  std::vector<std::uint32_t> unmet_;       // of a deferred one: ports and units it waits for
  std::vector<std::uint32_t> runnable_;    // deferred ones that may run, the first on top
  std::vector<std::uint32_t> released_;
  std::vector<std::shared_ptr<Failure>> failures_;  // per slot
};

}  // namespace troupe::engine
