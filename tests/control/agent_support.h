// SPDX-License-Identifier: Apache-2.0
// Tests of agents: one that joins, one with a child, and what they do and say.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/agent_state.h"

namespace troupe::control::testing {

/// What an agent does about an event.
using Effects = std::vector<AgentEffect>;

/// Of one kind.
template <typename Kind>
std::vector<Kind> all_of(const Effects& effects) {
  std::vector<Kind> found;
  for (const AgentEffect& effect : effects) {
    if (const auto* one = std::get_if<Kind>(&effect)) found.push_back(*one);
  }
  return found;
}

/// What is logged without asking for more.
inline std::vector<Note> notes_of(const Effects& effects) {
  std::vector<Note> notes = all_of<Note>(effects);
  std::erase_if(notes, [](const Note& note) { return note.detail; });
  return notes;
}

/// What is told to the coordinator, of one kind.
template <typename Message>
std::vector<Message> told(const Effects& effects) {
  std::vector<Message> found;
  for (const auto& send : all_of<Send<ToCoordinator>>(effects)) {
    if (const auto* message = std::get_if<Message>(&send.message)) found.push_back(*message);
  }
  return found;
}

/// An agent that begins to join at 1 s of its clock.
struct Joining {
  Joining() {
    limits.join_wait_ms = 100'000;
    limits.retry_first_ms = 50;
    limits.retry_most_ms = 400;
    limits.stop_grace_ms = 800;
    limits.agent_grace_ms = 300;
    state.emplace(schemas::AgentHello{}, limits);
    joins = all_of<JoinCoordinator>(state->handle(Begin{1'000}));
  }
  Effects refuse(base::Errc code, std::uint64_t join = 1) {
    Effects effects = state->handle(CoordinatorSaid{join, schemas::JobEnd{code, "no"}});
    for (AgentEffect& effect : state->handle(CoordinatorLost{join, "it said goodbye"})) {
      effects.push_back(std::move(effect));
    }
    return effects;
  }
  base::Limits limits;
  std::optional<AgentState> state;
  std::vector<JoinCoordinator> joins;
};

/// An agent that has joined, and its child `host`.
struct Parent : Joining {
  Parent() {
    state->handle(CoordinatorUp{1});
    state->handle(CoordinatorSaid{1, schemas::AgentWelcome{}});
    launch.job = std::string("x");
    launch.generation = 2;
    launch.actor = host.actor;
    launch.ranks = {4, 5};
    launch.job_text = std::string("spec");
    begun = state->handle(CoordinatorSaid{1, launch});
  }
  Effects stop(std::uint64_t grace_ms) {
    return state->handle(CoordinatorSaid{1, schemas::StopProcesses{"x", 2, grace_ms}});
  }
  const ProcessKey host{"x", 2, {schemas::Role::device_server, 1}};
  schemas::LaunchProcess launch;
  Effects begun;
};

}  // namespace troupe::control::testing
