// SPDX-License-Identifier: Apache-2.0
// The only use of CAF by the roles: mailbox, scheduling, delayed ticks.
#include "actors/stage.h"

#include <caf/all.hpp>
#include <chrono>

#include "engine/engine.h"

namespace troupe::actors {

/// An event in a mailbox; handed over by pointer, never serialised.
struct Post {
  std::shared_ptr<Event> event;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Post)

namespace troupe::actors {
namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;

struct RoleOptions {
  const base::Clock* clock;
  std::chrono::milliseconds tick;
  EventHandler handler;
};

caf::behavior role(caf::event_based_actor* self, const std::shared_ptr<RoleOptions>& options) {
  self->delayed_send(self, options->tick, TickAtom::value);
  return {
      [options](const Post& post) {
        engine::mark_actor_thread();
        options->handler(std::move(*post.event));
      },
      [self, options](TickAtom) {
        engine::mark_actor_thread();
        options->handler(Tick{static_cast<std::uint64_t>(options->clock->now_ms())});
        self->delayed_send(self, options->tick, TickAtom::value);
      },
  };
}

caf::actor_system_config& configure(caf::actor_system_config& config, std::uint32_t threads) {
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  return config;
}

}  // namespace

class Stage::System {
 public:
  explicit System(std::uint32_t threads) : actors(configure(config_, threads)) {}

 private:
  caf::actor_system_config config_;

 public:
  caf::actor_system actors;
};

Stage::Stage(std::uint32_t threads) : system_(std::make_unique<System>(threads)) {}
Stage::~Stage() = default;

class RoleActor::Handle {
 public:
  explicit Handle(caf::actor the_actor) : actor(std::move(the_actor)) {}
  caf::actor actor;
  bool ended = false;
};

RoleActor::RoleActor(Stage& stage, const base::Clock& clock, std::uint64_t tick_ms,
                     EventHandler handler)
    : stage_(stage) {
  const auto options = std::make_shared<RoleOptions>(
      RoleOptions{&clock, std::chrono::milliseconds(tick_ms), std::move(handler)});
  handle_ = std::make_unique<Handle>(stage.system().actors.spawn(role, options));
}

RoleActor::~RoleActor() {
  end();
}

void RoleActor::end() {
  if (handle_->ended) return;
  handle_->ended = true;
  caf::scoped_actor waiter(stage_.system().actors);
  caf::anon_send_exit(handle_->actor, caf::exit_reason::kill);
  waiter->wait_for(handle_->actor);
}

void RoleActor::post(Event event) const {
  caf::anon_send(handle_->actor, Post{std::make_shared<Event>(std::move(event))});
}

}  // namespace troupe::actors
