// SPDX-License-Identifier: Apache-2.0
// The coordinator's place in the post office.
#include "actors/local_coordinator.h"

#include <chrono>
#include <utility>

#include "actors/mail.h"

namespace troupe::actors {
namespace {

/// A signal can only set a flag, and nobody can sleep on a flag: so often it is looked at.
constexpr std::chrono::milliseconds kStopLook{20};

}  // namespace

LocalCoordinator::LocalCoordinator(const JobParts& parts, control::JobRoster roster,
                                   train::JobObserver& observer)
    : RoleShell("job " + parts.plan.job, std::move(roster)), parts_(parts), observer_(observer) {
  const base::Limits& limits = parts_.plan.spec.limits;
  begin(parts_.actors, parts_.clock, tick_ms(limits), limits);
  parts_.post_office.open(kCoordinator, [this](schemas::Envelope envelope) {
    post(control::ActorSaid{envelope.from, std::move(envelope.message)});
  });
  // Nobody has said anything yet: actors wait for their placement.
  post(control::Begin{now_ms()});
}

LocalCoordinator::~LocalCoordinator() {
  parts_.post_office.close(kCoordinator);
  end();
}

base::Status LocalCoordinator::wait(const std::atomic<bool>* stop) {
  std::future<base::Status> ended = ended_.get_future();
  if (stop != nullptr) {
    while (!stop->load() && ended.wait_for(kStopLook) != std::future_status::ready) {
    }
    if (stop->load()) {
      post(control::Abort{base::error(base::Errc::cancelled, "the run was stopped")});
    }
  }
  return ended.get();
}

void LocalCoordinator::perform(control::Send<schemas::ActorId> send) const {
  schemas::Envelope envelope;
  envelope.job = parts_.plan.job;
  envelope.generation = parts_.plan.generation;
  envelope.from = kCoordinator;
  envelope.to = send.to;
  envelope.message = std::move(send.message);
  parts_.post_office.post(std::move(envelope));
}

}  // namespace troupe::actors
