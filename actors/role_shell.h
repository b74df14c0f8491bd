// SPDX-License-Identifier: Apache-2.0
// RoleShell: the one shell around every role's state machine: a CAF actor that hands it events and
// has its effects performed. JobRole: the same for the roles of a job, which have an entry in the
// post office. A role that lacks perform() for one of its machine's effects does not compile.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "actors/actor_system.h"
#include "base/awake_clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "control/role_events.h"

namespace troupe::actors {

/// How often roles look at the clock: twice per first retry.
inline std::uint64_t tick_ms(const base::Limits& limits) {
  return limits.retry_first_ms / 2 + 1;
}

/// `Role` derives from it: it has `perform(Effect&&)` for each effect of `State` that is not
/// performed here, ends its constructor with begin() and begins its destructor with end().
/// `State` is a state machine: types Event and Effect, `std::vector<Effect> handle(Event)`.
template <typename Role, typename State>
class RoleShell {
 public:
  using Event = typename State::Event;
  using Effect = typename State::Effect;

  RoleShell(const RoleShell&) = delete;
  RoleShell& operator=(const RoleShell&) = delete;

  /// Hands the machine an event. Any thread; dropped after end().
  void post(Event event) const {
    actor_->post([this, held = std::move(event)]() mutable { self().handle(std::move(held)); });
  }
  /// Ends the ticks: the machine has nothing to do in time any more. Any thread; for good.
  void rest() { actor_->rest(); }
  /// What `question` says of the machine, asked on the actor. Not from an actor. Errors:
  /// deadline_exceeded when the actor has not answered in time or has ended.
  template <typename Question>
  auto ask(Question question, std::chrono::milliseconds deadline) const
      -> base::Result<std::invoke_result_t<Question, const State&>> {
    using Answer = std::invoke_result_t<Question, const State&>;
    const auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    actor_->post([this, promise, ask_it = std::move(question)] {
      promise->set_value(ask_it(std::as_const(state_)));
    });
    if (answer.wait_for(deadline) != std::future_status::ready) {
      return base::error(base::Errc::deadline_exceeded, "{} has not answered within {} ms", name_,
                         deadline.count());
    }
    return answer.get();
  }

 protected:
  template <typename... Arguments>
  explicit RoleShell(std::string name, Arguments&&... arguments)
      : name_(std::move(name)), state_(std::forward<Arguments>(arguments)...) {}
  ~RoleShell() = default;

  /// Events are handled from now on: the last statement of the role's constructor, before anybody
  /// can post. The first one says what time it is: deadlines and ages count from a known one.
  /// `every_ms`: how often the role looks at the clock; `limits` say what is a pause of the
  /// process.
  void begin(ActorSystem& system, const base::Clock& clock, std::uint64_t every_ms,
             const base::Limits& limits) {
    clock_.emplace(clock, every_ms, base::own_pause_ms(limits.silence_dead_ms));
    actor_.emplace(system, name_, *clock_, every_ms,
                   [this](std::uint64_t now_ms) { self().handle(control::Tick{now_ms}); });
    post(control::Tick{now_ms()});
  }
  /// The role's time: its deadlines do not count while the process stands still. After begin().
  std::uint64_t now_ms() const { return static_cast<std::uint64_t>(clock_->now_ms()); }
  /// Afterwards no event is being handled or will be: the first statement of the role's destructor.
  void end() {
    if (actor_) actor_->end();
  }

  /// On the actor. Roles that watch their events and effects have their own.
  void handle(Event event) { perform_all(state_.handle(std::move(event))); }
  void perform_all(std::vector<Effect> effects) {
    for (Effect& effect : effects) {
      std::visit([this](auto& what) { self().perform(std::move(what)); }, effect);
    }
  }
  void perform(const control::Note& note) const {
    if (note.warning) {
      base::log_warn("{}: {}", name_, note.text);
    } else if (note.detail) {
      base::log_debug("{}: {}", name_, note.text);
    } else {
      base::log_info("{}: {}", name_, note.text);
    }
  }
  State& state() { return state_; }

 private:
  Role& self() const { return const_cast<Role&>(static_cast<const Role&>(*this)); }

  const std::string name_;
  State state_;  // the actor's alone
  std::optional<base::AwakeClock> clock_;
  std::optional<RoleActor> actor_;
};

}  // namespace troupe::actors
