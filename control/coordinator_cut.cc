// SPDX-License-Identifier: Apache-2.0
// The coordinator's part in checkpoints out of turn: people ask for them, and jobs leave machines
// whose agents were asked to end.
#include <fmt/format.h>

#include <utility>

#include "control/coordinator_state.h"

namespace troupe::control {

using base::Errc;

/// Answered when the checkpoint is there, or when it is known that there will be none. Who asks on
/// while it waits is dropped, and what is answered at once has changed nothing: so nobody fills
/// memory or logs with wishes.
void CoordinatorState::on_message(PeerId peer, const schemas::JobCheckpoint& wanted) {
  schemas::JobCheckpointAnswer answer;
  Job* job = find(wanted.id);
  if (!may_end(peer, job, fmt::format("save job '{}'", wanted.id))) return;
  if (awaits(peer)) {
    return drop(peer, base::error(Errc::resource_exhausted,
                                  "it wants a checkpoint of job '{}' and waits for another answer",
                                  wanted.id));
  }
  if (job == nullptr) {
    answer.code = Errc::not_found;
    answer.text = fmt::format("no job '{}'", wanted.id);
    emit(Send<PeerId>{peer, std::move(answer)});
    return;
  }
  if (job->run && !job->run->over()) {
    hand_to_run(*job, CheckpointRequested{peer});
    if (!job->run->owes(peer)) return;
    note_change(peer, fmt::format("saves job '{}'", wanted.id));
    return emit(Note{false, fmt::format("a checkpoint of job {} is wanted", wanted.id)});
  }
  const schemas::JobInfo& info = shown(*job);
  answer.text = fmt::format(
      "job {} {}{}", wanted.id,
      is_final(info.phase) ? "has ended: " : "does not run: ", schemas::job_phase_name(info.phase));
  if (!info.checkpoint.empty()) answer.text += "; its newest checkpoint is " + info.checkpoint;
  emit(Send<PeerId>{peer, std::move(answer)});
}

/// It ends when nothing of any job is left on its machine, or when it has waited long enough.
void CoordinatorState::on_message(PeerId peer, const schemas::AgentLeaving& leaving) {
  const auto agent = agents_.find(peer);
  if (agent == agents_.end()) return refuse(peer);
  if (std::exchange(agent->second.leaving, true)) return;
  note_change(peer, fmt::format("agent '{}' leaves: {}", agent->second.hello.name, leaving.text));
  emit(Note{false, fmt::format("agent '{}' leaves: {}", agent->second.hello.name, leaving.text)});
  for (const auto& [job, machine] : runs_on(peer)) {
    hand_to_run(*job, MachineLeaving{machine, leaving.text});
  }
}

/// A run has left its machines in good order: the job waits for others, in its old place of the
/// queue. Processes of that run may still be ending somewhere, so the next one has a generation of
/// its own.
void CoordinatorState::queue_again(Job& job) {
  const schemas::JobInfo& last = job.run->info();
  job.info = last;
  job.info.phase = schemas::JobPhase::pending;
  job.info.samples = 0;
  job.generation = job.run->plan().placement.generation + 1;
  job.spec.checkpoint.resume = true;  // what lies there is its own by now
  job.earlier = all_runs(job);
  job.moved = true;
  const std::string from = last.checkpoint.empty() ? "the beginning" : last.checkpoint;
  emit(Note{false, fmt::format("job {} {} and goes on from {}", job.info.id, last.text, from)});
  running_.erase(job.number);
  use_slots(job.run->plan(), true);
  job.run.reset();
  job.queued_ms = now_ms_;
  pending_.insert(job.number);
  slots_changed_ = true;
}

/// Of a run that has ended meanwhile: nobody wants to know.
template <typename Told>
void CoordinatorState::tell_run(const std::string& id, std::uint64_t generation, const Told& told) {
  Job* job = find(id);
  if (job == nullptr || !job->run) return;
  if (generation == job->run->plan().placement.generation) hand_to_run(*job, told);
}

void CoordinatorState::on(const FolderProbed& probed) {
  tell_run(probed.result.job, probed.result.generation, probed);
}

void CoordinatorState::on(const FolderHeld& held) {
  tell_run(held.job, held.run, held);
}

void CoordinatorState::on(const CollectingGoesOn& collecting) {
  tell_run(collecting.job, collecting.run, collecting);
}

void CoordinatorState::on(const CheckpointCollected& collected) {
  tell_run(collected.job, collected.run, collected);
}

}  // namespace troupe::control
