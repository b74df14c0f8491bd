// SPDX-License-Identifier: Apache-2.0
// The coordinator's place in the post office.
#include "actors/local_coordinator.h"

#include <chrono>
#include <utility>

#include "actors/mail.h"
#include "base/log.h"

namespace troupe::actors {
namespace {

/// A signal can only set a flag, and nobody can sleep on a flag: so often it is looked at.
constexpr std::chrono::milliseconds kStopLook{20};

}  // namespace

LocalCoordinator::LocalCoordinator(const JobParts& parts, const control::JobRoster& roster,
                                   train::JobObserver& observer)
    : RoleShell("job " + parts.plan.job, roster),
      parts_(parts),
      observer_(observer),
      steps_total_(roster.steps_total) {
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
    if (stop->load()) post(control::CutWanted{0, true});
  }
  return ended.get();
}

/// The cut with which the run is to end. When its step is the job's last, the job is done anyhow.
void LocalCoordinator::perform(const control::CutSettled& settled) {
  if (settled.status.ok() && settled.step == steps_total_) return;
  // Before training, and without a folder, there is nothing to save.
  const bool wanted = settled.status.code() != base::Errc::failed_precondition;
  if (!settled.status.ok() && wanted) base::log_warn("{}", settled.status.text());
  post(control::Abort{base::error(base::Errc::cancelled, "the run was stopped")});
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
