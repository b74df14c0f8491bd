// SPDX-License-Identifier: Apache-2.0
// The only use of CAF: mailbox, scheduling, delayed ticks, and the end of the process when a role
// throws.
#include "actors/actor_system.h"

#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/engine.h"

namespace troupe::actors {

/// Work in a mailbox; handed over by pointer, never serialised.
struct Post {
  std::shared_ptr<RoleActor::Task> task;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Post)

namespace troupe::actors {
namespace {

using TickAtom = caf::atom_constant<caf::atom("tick")>;

struct RoleOptions {
  std::string name;
  const base::Clock* clock;
  std::chrono::milliseconds tick_every;
  RoleActor::TickFunction tick;
  std::atomic<bool> resting{false};

  RoleOptions(std::string the_name, const base::Clock& the_clock, std::uint64_t tick_ms,
              RoleActor::TickFunction the_tick)
      : name(std::move(the_name)),
        clock(&the_clock),
        tick_every(tick_ms),
        tick(std::move(the_tick)) {}
};

/// CAF ends only the actor that threw: its peers would wait for it for ever.
[[noreturn]] void end_process(const std::string& name, const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    base::log_error("{}: exception: {}; the process ends", name, error.what());
    std::terminate();  // whose handler sees the exception
  } catch (...) {
    base::log_error("{}: exception of an unknown type; the process ends", name);
    std::terminate();
  }
}

caf::behavior role(caf::event_based_actor* self, const std::shared_ptr<RoleOptions>& options) {
  self->set_exception_handler(
      [options](std::exception_ptr& thrown) -> caf::error { end_process(options->name, thrown); });
  self->delayed_send(self, options->tick_every, TickAtom::value);
  return {
      [](const Post& post) {
        engine::mark_actor_thread();
        post.task->run();
      },
      [self, options](TickAtom) {
        if (options->resting) return;
        engine::mark_actor_thread();
        options->tick(static_cast<std::uint64_t>(options->clock->now_ms()));
        self->delayed_send(self, options->tick_every, TickAtom::value);
      },
  };
}

/// CAF's own, beside those that run actors: its clock and its printer.
constexpr std::size_t kOwnThreads = 2;

/// A constructor of CAF that finds no thread left waits for its own threads for ever, or crashes.
/// So as many as it is going to start are tried first, all at once. Throws std::system_error.
void try_threads(std::size_t count) {
  std::vector<std::jthread> threads;
  std::promise<void> tried;  // its end lets them go
  const std::shared_future<void> over = tried.get_future().share();
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back([over] { over.wait(); });
}

caf::actor_system_config& configure(caf::actor_system_config& config, std::uint32_t threads) {
  try_threads(threads + kOwnThreads);
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
  return config;
}

}  // namespace

class ActorSystem::Impl {
 public:
  explicit Impl(std::uint32_t threads) : actors(configure(config_, threads)) {}

 private:
  caf::actor_system_config config_;

 public:
  caf::actor_system actors;
};

ActorSystem::ActorSystem(std::uint32_t threads) : impl_(std::make_unique<Impl>(threads)) {}
ActorSystem::~ActorSystem() = default;

class RoleActor::Handle {
 public:
  Handle(caf::actor the_actor, std::shared_ptr<RoleOptions> the_options)
      : actor(std::move(the_actor)), options(std::move(the_options)) {}
  caf::actor actor;
  std::shared_ptr<RoleOptions> options;
  bool ended = false;
};

RoleActor::RoleActor(ActorSystem& system, std::string name, const base::Clock& clock,
                     std::uint64_t tick_ms, TickFunction tick)
    : system_(system) {
  const auto options =
      std::make_shared<RoleOptions>(std::move(name), clock, tick_ms, std::move(tick));
  handle_ = std::make_unique<Handle>(system.impl_->actors.spawn(role, options), options);
}

void RoleActor::rest() {
  handle_->options->resting = true;
}

RoleActor::~RoleActor() {
  end();
}

void RoleActor::end() {
  if (handle_->ended) return;
  handle_->ended = true;
  caf::scoped_actor waiter(system_.impl_->actors);
  caf::anon_send_exit(handle_->actor, caf::exit_reason::kill);
  waiter->wait_for(handle_->actor);
}

void RoleActor::post_task(std::shared_ptr<Task> task) const {
  caf::anon_send(handle_->actor, Post{std::move(task)});
}

}  // namespace troupe::actors
