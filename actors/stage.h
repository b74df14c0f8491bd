// SPDX-License-Identifier: Apache-2.0
// Stage: the CAF actor system of a process; RoleActor: the thin actor around one state machine. The
// actor runs its handler for one event at a time, so a state machine needs no lock. CAF stays
// inside stage.cc: its headers cost ten seconds each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "actors/effects.h"
#include "base/clock.h"
#include "base/limits.h"

namespace troupe::actors {

/// The scheduler of a process's actors. Outlives all RoleActors made on it.
class Stage {
 public:
  /// `threads` run all actors: they only shuffle handles, so few suffice.
  explicit Stage(std::uint32_t threads = 2);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  class System;
  System& system() { return *system_; }

 private:
  std::unique_ptr<System> system_;
};

/// How often roles look at the clock: twice per first retry.
inline std::uint64_t tick_ms(const base::Limits& limits) {
  return limits.retry_first_ms / 2 + 1;
}

/// Handles one event; must be quick, and never wait.
using EventHandler = std::function<void(Event)>;

/// An actor with a handler and a clock tick.
class RoleActor {
 public:
  /// `handler` gets posted events in order, and Tick{now} every `tick_ms` of `clock`.
  RoleActor(Stage& stage, const base::Clock& clock, std::uint64_t tick_ms, EventHandler handler);
  ~RoleActor();
  RoleActor(const RoleActor&) = delete;
  RoleActor& operator=(const RoleActor&) = delete;

  /// Any thread. Dropped once the actor has ended.
  void post(Event event) const;
  /// Ends the actor; afterwards the handler is not running and never called again. The destructor
  /// does it too. Not from an actor.
  void end();

 private:
  class Handle;
  Stage& stage_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace troupe::actors
