// SPDX-License-Identifier: Apache-2.0
// A small job for the tests of single state machines, and short ways to look at effects.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "actors/effects.h"
#include "actors/job_plan.h"
#include "actors/mail.h"

namespace troupe::actors::testing {

/// `machines` x 2 ranks, one key of 6 f32 elements in slices of 4 and 2, 2 shards, 8 steps.
inline JobPlan small_plan(std::uint32_t machines = 2, schemas::ConsistencySpec consistency = {}) {
  schemas::JobSpec spec;
  spec.name = "small";
  spec.workers = {machines, 2, 1};
  spec.servers.shards = 2;
  spec.data.batch = 1;
  spec.train.epochs = 2;
  spec.consistency = consistency;
  spec.checkpoint.dir = "disk";
  spec.checkpoint.every = {1, schemas::Period::Unit::steps};
  schemas::KeyInfo key;
  key.name = "weight";
  key.shape = {6};
  return make_job_plan("small", 3, spec, {key}, 16).value();
}

inline schemas::Placement small_placement(const JobPlan& plan, std::uint64_t view = 1) {
  schemas::Placement placement;
  placement.view = view;
  placement.generation = plan.generation;
  for (std::uint32_t rank = 0; rank < plan.spec.ranks(); ++rank) {
    placement.machine_of_rank.push_back(rank / 2);
  }
  return placement;
}

/// An envelope of the job, in its generation and view 1.
inline schemas::Envelope letter(const JobPlan& plan, schemas::ActorId from,
                                schemas::Message message, base::Buffer payload = {}) {
  schemas::Envelope envelope;
  envelope.job = plan.job;
  envelope.generation = plan.generation;
  envelope.view = 1;
  envelope.from = from;
  envelope.message = std::move(message);
  envelope.payload = std::move(payload);
  return envelope;
}

/// The messages of one kind among the effects, with their addressees.
template <typename Message, typename Effect>
std::vector<std::pair<schemas::ActorId, Message>> sent(const std::vector<Effect>& effects) {
  std::vector<std::pair<schemas::ActorId, Message>> found;
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    if (const auto* message = std::get_if<Message>(&send->envelope.message)) {
      found.emplace_back(send->envelope.to, *message);
    }
  }
  return found;
}

/// The effects of one kind.
template <typename Kind, typename Effect>
std::vector<Kind> of_kind(const std::vector<Effect>& effects) {
  std::vector<Kind> found;
  for (const Effect& effect : effects) {
    if (const auto* one = std::get_if<Kind>(&effect)) found.push_back(*one);
  }
  return found;
}

/// Opens a role: placement and start.
template <typename State>
std::vector<typename State::Effect> open_role(State& state, const JobPlan& plan) {
  state.handle(Received{letter(plan, kCoordinator, small_placement(plan))});
  return state.handle(Received{letter(plan, kCoordinator, schemas::TrainingStart{0, 16})});
}

}  // namespace troupe::actors::testing
