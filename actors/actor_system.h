// SPDX-License-Identifier: Apache-2.0
// ActorSystem: the CAF actor system of a process; RoleActor: one CAF actor that runs what is posted
// to it, one piece of work at a time and in order, so a state machine needs no lock. CAF stays
// inside actor_system.cc: its headers cost ten seconds each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"

namespace troupe::actors {

/// The scheduler of a process's actors. Outlives all RoleActors made on it.
class ActorSystem {
 public:
  /// `threads` run all actors: they only shuffle handles, so few suffice. Throws std::system_error
  /// when the system has no threads left.
  explicit ActorSystem(std::uint32_t threads = 2);
  ~ActorSystem();
  ActorSystem(const ActorSystem&) = delete;
  ActorSystem& operator=(const ActorSystem&) = delete;

 private:
  friend class RoleActor;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// An actor with a mailbox and a clock tick. An exception that leaves its work is a defect of the
/// program: it is logged with the actor's name and ends the process (std::terminate), because an
/// actor that dies alone leaves everybody who waits for it hanging.
class RoleActor {
 public:
  /// What a tick does; `now_ms` of the actor's clock.
  using TickFunction = std::function<void(std::uint64_t now_ms)>;

  /// Calls `tick` every `tick_ms` of `clock`, on the actor. `name`: for the log, "worker 3".
  RoleActor(ActorSystem& system, std::string name, const base::Clock& clock, std::uint64_t tick_ms,
            TickFunction tick);
  ~RoleActor();
  RoleActor(const RoleActor&) = delete;
  RoleActor& operator=(const RoleActor&) = delete;

  /// Runs `work()` on the actor after all that was posted before; it must be quick, and never wait.
  /// Any thread. Dropped once the actor has ended.
  template <typename Work>
  void post(Work work) const {
    post_task(std::make_shared<TaskOf<Work>>(std::move(work)));
  }
  /// No further ticks: nothing has a deadline any more. Any thread; for good.
  void rest();
  /// Ends the actor; afterwards none of its work is running or will run. The destructor does it,
  /// too. Not from an actor.
  void end();

 private:
  friend struct Post;
  struct Task {
    virtual ~Task() = default;
    virtual void run() = 0;
  };
  template <typename Work>
  struct TaskOf final : Task {
    explicit TaskOf(Work the_work) : work(std::move(the_work)) {}
    void run() override { work(); }
    Work work;
  };
  void post_task(std::shared_ptr<Task> task) const;

  class Handle;
  ActorSystem& system_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace troupe::actors
