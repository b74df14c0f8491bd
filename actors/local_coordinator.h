// SPDX-License-Identifier: Apache-2.0
// LocalCoordinator: a job without a coordinator: the actor around JobState that `troupe run` has in
// its place. The other roles know no difference. Made, asked and destroyed by one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>

#include "actors/job_parts.h"
#include "control/job_state.h"
#include "train/local_run.h"

namespace troupe::actors {

/// See the top of the file.
class LocalCoordinator final : public RoleShell<LocalCoordinator, control::JobState> {
 public:
  /// Sends the placement to the actors of the roster. `observer` is called on the actor; it and all
  /// of `parts` outlive this object.
  LocalCoordinator(const JobParts& parts, const control::JobRoster& roster,
                   train::JobObserver& observer);
  ~LocalCoordinator();

  /// Waits for the job's end, once; `stop` asks for an early one, with a checkpoint where the job
  /// writes any, and may be null. ok, the first failure, or cancelled.
  base::Status wait(const std::atomic<bool>* stop);

 private:
  friend class RoleShell<LocalCoordinator, control::JobState>;
  using RoleShell::perform;
  void perform(control::Send<schemas::ActorId> send) const;
  void perform(const control::JobStepped& stepped) { observer_.progress(stepped.progress); }
  void perform(const control::JobScored& scored) { observer_.scored(scored.score); }
  void perform(const control::JobCheckpointed& cut) { observer_.checkpointed(cut.step, cut.path); }
  void perform(const control::CutSettled& settled);
  void perform(const control::End& end) { ended_.set_value(end.status); }

  const JobParts parts_;
  train::JobObserver& observer_;
  const std::uint64_t steps_total_;
  std::promise<base::Status> ended_;
};

}  // namespace troupe::actors
