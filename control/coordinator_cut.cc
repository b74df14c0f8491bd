// SPDX-License-Identifier: Apache-2.0
// The coordinator's part in checkpoints out of turn: people stop jobs or ask for checkpoints, and
// jobs leave machines whose agents were asked to end. Machines that get nothing new.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "control/coordinator_state.h"

namespace troupe::control {

using base::Errc;

void CoordinatorState::tell_unknown(PeerId peer, const std::string& id) {
  emit(Send<PeerId>{peer, schemas::JobList{Errc::not_found, fmt::format("no job '{}'", id), {}}});
}

/// Answered when the job has ended (settle()), which may be at once.
void CoordinatorState::on_message(PeerId peer, const schemas::JobStop& stop) {
  Job* job = find(stop.id);
  if (!may_end(peer, job, fmt::format("stop job '{}'", stop.id))) return;
  if (job == nullptr) return tell_unknown(peer, stop.id);
  const base::Status noted = note_stop(peer, *job, stop.checkpoint);
  if (!noted.ok()) {
    return emit(Send<PeerId>{peer, schemas::JobList{noted.code(), noted.text(), {}}});
  }
  changed_.insert(job->number);
  if (job->run) {
    hand_to_run(*job, StopRequested{stop.checkpoint});
  } else if (!is_final(job->info.phase)) {
    pending_.erase(job->number);
    job->info.phase = schemas::JobPhase::stopped;
    job->info.text =
        job->earlier.runs == 0 ? "stopped before it began" : "stopped while it waited to go on";
  }
}

/// Who asks the same again is noted once; a stop at once that follows one with a checkpoint is
/// another wish.
base::Status CoordinatorState::note_stop(PeerId peer, Job& job, bool checkpoint) {
  const auto asked = job.waiting.find(peer);
  const bool fresh = asked == job.waiting.end();
  const bool hurries = !fresh && asked->second && !checkpoint;
  const bool changes = (fresh || hurries) && !is_final(shown(job).phase);
  if (changes) TROUPE_TRY(access_.count_change(caller_of(peer), now_ms_));
  if (fresh || hurries) job.waiting[peer] = checkpoint;
  if (!changes) return {};
  const std::string_view how = checkpoint ? " with a checkpoint" : hurries ? " at once" : "";
  note_change(peer, fmt::format("stops job '{}'{}", job.info.id, how));
  emit(Note{false, fmt::format("job {} is to be stopped{}", job.info.id, how)});
  return {};
}

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
    const base::Status counted = access_.count_change(caller_of(peer), now_ms_);
    if (!counted.ok()) {
      answer.code = counted.code();
      answer.text = counted.text();
      return emit(Send<PeerId>{peer, std::move(answer)});
    }
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
  slots_changed_ = true;  // jobs may have waited for what it has
  note_change(peer, fmt::format("agent '{}' leaves: {}", agent->second.hello.name, leaving.text));
  emit(Note{false, fmt::format("agent '{}' leaves: {}", agent->second.hello.name, leaving.text)});
  for (const auto& [job, machine] : runs_on(peer)) {
    hand_to_run(*job, MachineLeaving{machine, leaving.text});
  }
}

/// Its slots count no more for new jobs, or they do again; what runs there is not touched.
void CoordinatorState::on_message(PeerId peer, const schemas::AgentOffer& offer) {
  const auto agent = agents_.find(peer);
  if (agent == agents_.end()) return refuse(peer);
  agent->second.offer = offer;
  look_at_offer(peer, agent->second);
}

/// Each news is a line of the log and a look at all jobs that wait, so an agent has one a second.
void CoordinatorState::look_at_offer(PeerId peer, Agent& agent) {
  constexpr std::uint64_t kOfferMs = 1'000;
  const bool early = agent.offered_ms != 0 && now_ms_ - agent.offered_ms < kOfferMs;
  if (!agent.offer || early) return;
  agent.offered_ms = now_ms_;
  const schemas::AgentOffer offer = *std::exchange(agent.offer, std::nullopt);
  note_withheld(peer, offer.withheld);
  agent.hello.lost_gpus = offer.lost_gpus;
  note_lost(peer);
  note_kept(agent, offer.slots_kept);
}

/// An agent chooses the words, which stand in lists and on terminals. It gets nothing either once
/// its certificate has ended, whatever it says.
void CoordinatorState::note_withheld(PeerId peer, const std::string& said) {
  constexpr std::size_t kWordsMax = 256;  // of each machine in a list
  Agent& agent = agents_.at(peer);
  agent.said = base::shortened(base::printable(said), kWordsMax);
  std::string& known = agent.hello.withheld;
  std::string words = agent.said.empty() ? caller_of(peer).ended.text() : agent.said;
  if (words == known) return;
  known = std::move(words);
  slots_changed_ = true;
  emit(Note{!known.empty(),
            known.empty()
                ? fmt::format("agent '{}' offers its slots again", agent.hello.name)
                : fmt::format("agent '{}' offers no slots: {}", agent.hello.name, known)});
}

/// What runs on a GPU that its agent has lost is not touched: it fails by itself, or ends well.
/// A GPU that a process may use whose run is over counts as lost until that process has ended.
void CoordinatorState::note_lost(PeerId peer) {
  Agent& agent = agents_.at(peer);
  std::vector<schemas::LostGpu> lost = agent.hello.lost_gpus;
  for (const auto& [process, left] : agent.left) {
    for (const std::uint32_t index : left.gpus)
      lost.push_back({index, left.name + " may still run"});
  }
  if (!agent.gpus.lose(lost)) return;
  slots_changed_ = true;
  const std::string text = base::shortened(lost_text(agent.gpus.lost()), kNoteBytesMax);
  emit(Note{!text.empty(),
            text.empty() ? fmt::format("agent '{}' offers all its GPUs again", agent.hello.name)
                         : fmt::format("agent '{}' offers no more: {}", agent.hello.name, text)});
}

/// An agent that has joined anew may have processes that do not end.
void CoordinatorState::note_kept(Agent& agent, std::uint32_t slots) {
  slots = std::min(slots, agent.hello.slots);
  if (std::exchange(agent.hello.slots_kept, slots) == slots) return;
  slots_changed_ = true;
  emit(Note{slots > 0,
            slots == 0
                ? fmt::format("agent '{}' keeps none of its slots any more", agent.hello.name)
                : fmt::format("agent '{}' keeps {}, which processes from before it joined may use",
                              agent.hello.name, base::format_counted(slots, "slot"))});
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
  job.saved_model = saved_model(job);
  job.moved = true;
  const std::string from = last.checkpoint.empty() ? "the beginning" : last.checkpoint;
  emit(Note{false, fmt::format("job {} {} and goes on from {}", job.info.id, last.text, from)});
  running_.erase(job.number);
  give_back_slots(*job.run);
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

void CoordinatorState::on(const WorkGoesOn& work) {
  tell_run(work.job, work.run, work);
}

void CoordinatorState::on(const CheckpointCollected& collected) {
  tell_run(collected.job, collected.run, collected);
}

}  // namespace troupe::control
