// SPDX-License-Identifier: Apache-2.0
// Transitions of a run.
#include "control/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schemas/codec.h"

namespace troupe::control {

using base::Errc;
using schemas::ActorId;
using schemas::Role;

namespace {

/// A file of the probe; removed when the probe is over. An earlier run's removal may come late.
std::string probe_file(const RunPlan& plan) {
  return fmt::format(".probe-{}-g{}", plan.job, plan.placement.generation);
}

ActorId host_of(std::uint32_t machine) {
  return {Role::device_server, machine};
}

}  // namespace

RunState::RunState(RunPlan plan) : plan_(std::move(plan)) {
  const schemas::Placement& placement = plan_.placement;
  info_.id = plan_.job;
  info_.name = plan_.spec.name;
  info_.phase = schemas::JobPhase::starting;
  probed_.resize(placement.machines.size());
  lost_.resize(placement.machines.size());
  for (std::uint32_t shard = 0; shard < placement.machine_of_shard.size(); ++shard) {
    Process& process = processes_[{Role::parameter_server, shard}];
    process.machine = placement.machine_of_shard[shard];
  }
  for (std::uint32_t rank = 0; rank < placement.machine_of_rank.size(); ++rank) {
    const std::uint32_t machine = placement.machine_of_rank[rank];
    Process& process = processes_[host_of(machine)];
    process.machine = machine;
    process.ranks.push_back(rank);
  }
  // Nothing runs before launch().
  for (auto& [actor, process] : processes_) process.gone = true;
}

RunState::Effects RunState::begin(std::uint64_t now_ms) {
  now_ms_ = now_ms;
  Effects effects;
  if (plan_.spec.checkpoint.dir.empty()) {
    find_start(effects);
    return effects;
  }
  phase_ = Phase::probing;
  deadline_ms_ = now_ms_ + plan_.spec.limits.probe_ms;
  send_probe(0, true, effects);
  return effects;
}

RunState::Effects RunState::received(std::uint32_t machine, const schemas::Message& message) {
  Effects effects;
  if (over() || lost_[machine]) return effects;
  if (const auto* probe = std::get_if<schemas::FolderProbeResult>(&message)) {
    on_probe(machine, *probe, effects);
  } else if (const auto* inner = std::get_if<schemas::ProcessMessage>(&message)) {
    on_message(machine, *inner, effects);
  } else if (const auto* exited = std::get_if<schemas::ProcessExited>(&message)) {
    on_exit(machine, *exited, effects);
  }
  return effects;
}

void RunState::on_probe(std::uint32_t machine, const schemas::FolderProbeResult& result,
                        Effects& effects) {
  if (phase_ != Phase::probing && phase_ != Phase::reading) return;
  if (result.code != Errc::ok) {
    fail(base::error(Errc::failed_precondition,
                     "checkpoint.dir {} must be one folder for all machines; machine '{}' {}: {}",
                     plan_.spec.checkpoint.dir, plan_.placement.machines[machine],
                     phase_ == Phase::probing ? "cannot write there" : "does not see it",
                     result.text),
         effects);
    return;
  }
  probed_[machine] = true;
  if (phase_ == Phase::probing) {
    phase_ = Phase::reading;
    for (std::uint32_t other = 1; other < probed_.size(); ++other) {
      send_probe(other, false, effects);
    }
  }
  if (std::find(probed_.begin(), probed_.end(), false) == probed_.end()) {
    remove_probe(effects);
    find_start(effects);
  }
}

void RunState::remove_probe(Effects& effects) {
  send(0,
       schemas::FolderProbe{plan_.job, plan_.placement.generation, plan_.spec.checkpoint.dir,
                            probe_file(plan_), "", true},
       effects);
}

void RunState::find_start(Effects& effects) {
  phase_ = Phase::finding;
  deadline_ms_ = now_ms_ + plan_.spec.limits.start_ms;
  effects.push_back(FindStart{plan_.job, plan_.spec});
}

RunState::Effects RunState::start_found(const StartFound& found) {
  Effects effects;
  if (phase_ != Phase::finding) return effects;
  if (!found.status.ok()) {
    fail(found.status, effects);
    return effects;
  }
  plan_.placement.start_step = info_.step = found.step;
  std::uint64_t& generation = plan_.placement.generation;
  generation = std::max(generation, found.generation);
  info_.steps_total = found.steps_total;
  info_.checkpoint = found.checkpoint;
  if (!found.checkpoint.empty()) {
    info_.text = fmt::format("goes on at step {} from {}", found.step, found.checkpoint);
    effects.push_back(Note{false, fmt::format("job {} {}", plan_.job, info_.text)});
  }
  if (found.step == found.steps_total) {
    finish(effects);  // the checkpoint is the job's last
  } else {
    launch(effects);
  }
  return effects;
}

void RunState::launch(Effects& effects) {
  phase_ = Phase::launching;
  deadline_ms_ = now_ms_ + plan_.spec.limits.start_ms;
  for (auto& [actor, process] : processes_) {
    process.gone = false;
    send(process.machine,
         schemas::LaunchProcess{plan_.job, plan_.placement.generation, actor, process.machine,
                                process.ranks, plan_.job_text},
         effects);
  }
}

void RunState::on_message(std::uint32_t machine, const schemas::ProcessMessage& message,
                          Effects& effects) {
  Process* process = process_of(message.actor);
  if (process == nullptr || process->machine != machine || process->gone) return;
  const auto inner = schemas::decode_message(message.message);
  if (!inner.ok()) {
    fail(inner.status().with_context(name_of(message.actor, *process)), effects);
    return;
  }
  if (const auto* ready = std::get_if<schemas::ProcessReady>(&*inner)) {
    on_ready(*process, *ready, effects);
  } else if (const auto* failed = std::get_if<schemas::ActorFailed>(&*inner)) {
    on_failed(*process, *failed, effects);
  } else if (job_ && phase_ == Phase::running) {
    run_effects(job_->received(message.actor, *inner), effects);
  }
}

void RunState::on_ready(Process& process, const schemas::ProcessReady& ready, Effects& effects) {
  if (phase_ != Phase::launching) return;
  process.ready = ready;
  for (const auto& [actor, other] : processes_) {
    if (!other.ready) return;
  }
  const base::Status status = check_classes();
  if (status.ok()) {
    begin_training(effects);
  } else {
    fail(status, effects);
  }
}

base::Status RunState::check_classes() const {
  if (!plan_.spec.consistency.sequential() || !plan_.spec.reproducible) return {};
  const auto& [first_actor, first] = *processes_.begin();
  for (const auto& [actor, process] : processes_) {
    if (process.ready->numeric_class == first.ready->numeric_class) continue;
    return base::error(Errc::failed_precondition,
                       "the job's processes are of two numeric classes: {}: {}; {}: {}; "
                       "reproducible = false allows that",
                       name_of(first_actor, first), first.ready->numeric_class.to_string(),
                       name_of(actor, process), process.ready->numeric_class.to_string());
  }
  return {};
}

void RunState::begin_training(Effects& effects) {
  phase_ = Phase::running;
  info_.phase = schemas::JobPhase::running;
  stepped_ms_ = now_ms_;
  schemas::Placement& placement = plan_.placement;
  for (std::uint32_t shard = 0; shard < placement.machine_of_shard.size(); ++shard) {
    placement.shard_addresses.push_back(
        processes_.at({Role::parameter_server, shard}).ready->address);
  }
  job_.emplace(JobRoster{plan_.job, placement.generation, placement, plan_.spec.limits});
  run_effects(job_->begin(now_ms_), effects);
}

void RunState::run_effects(const std::vector<JobEffect>& done, Effects& effects) {
  for (const JobEffect& effect : done) {
    if (const auto* send_it = std::get_if<JobSend>(&effect)) {
      const auto bytes = schemas::encode_message(send_it->message);
      TROUPE_CHECK(bytes.ok(), bytes.status().to_string());
      const auto machine = plan_.placement.machine_of(send_it->to);
      TROUPE_CHECK(machine.has_value(), "the job speaks to its own actors only");
      send(*machine,
           schemas::ProcessMessage{plan_.job, plan_.placement.generation, send_it->to, *bytes},
           effects);
    } else if (const auto* progress = std::get_if<JobStepped>(&effect)) {
      stepped(progress->progress);
    } else if (const auto* score = std::get_if<JobScored>(&effect)) {
      info_.accuracy = score->score.accuracy();
    } else if (const auto* checkpoint = std::get_if<JobCheckpointed>(&effect)) {
      info_.checkpoint = checkpoint->path;
      checkpointed_ms_ = now_ms_;
    } else if (const auto* warned = std::get_if<JobWarned>(&effect)) {
      info_.text = warned->text;
      effects.push_back(Note{true, fmt::format("job {}: {}", plan_.job, warned->text)});
    } else if (const auto* ended = std::get_if<JobEnded>(&effect)) {
      if (outcome_.ok()) outcome_ = ended->status;
      end(effects);
    }
  }
}

void RunState::stepped(const control::StepProgress& progress) {
  info_.step = progress.step;
  info_.text.clear();
  if (const auto loss = progress.metrics.find("cross_entropy"); loss != progress.metrics.end()) {
    info_.loss = loss->second.mean();
    if (!std::isfinite(info_.loss))
      info_.text = control::divergence_text(progress.step, info_.loss);
  }
  if (now_ms_ > stepped_ms_ && progress.samples > stepped_samples_) {
    info_.samples_per_second = static_cast<double>(progress.samples - stepped_samples_) * 1000.0 /
                               static_cast<double>(now_ms_ - stepped_ms_);
  }
  info_.samples = progress.samples;
  stepped_ms_ = now_ms_;
  stepped_samples_ = progress.samples;
}

void RunState::on_failed(Process& process, const schemas::ActorFailed& failed, Effects& effects) {
  process.complained = true;
  if (phase_ != Phase::launching && phase_ != Phase::running) return;
  const Errc code = failed.code == Errc::ok ? Errc::internal : failed.code;
  const base::Status status(
      code, fmt::format("{} failed: {}", plan_.placement.name_of(failed.actor), failed.text));
  if (code != Errc::unavailable) {
    fail(status, effects);
  } else if (!suspicion_) {
    // It misses a peer. If that has died, its agent says so soon, and knows better; a dead agent is
    // known when its link has not healed.
    suspicion_ = Suspicion{status, now_ms_ + 2 * plan_.spec.limits.reconnect_ms};
  }
}

void RunState::on_exit(std::uint32_t machine, const schemas::ProcessExited& exited,
                       Effects& effects) {
  const auto found = processes_.find(exited.actor);
  if (found == processes_.end() || found->second.machine != machine || found->second.gone) return;
  Process& process = found->second;
  process.gone = true;
  const bool signal = exited.how.starts_with("signal");
  if ((phase_ == Phase::launching || phase_ == Phase::running) && (signal || !process.complained)) {
    fail(base::error(Errc::failed_precondition, "{} {} {}", name_of(exited.actor, process),
                     signal ? "was killed by" : "ended early:", exited.how),
         effects);
  } else if (phase_ == Phase::running && suspicion_) {
    fail(suspicion_->status, effects);
  } else if (phase_ == Phase::ending && outcome_.ok() && !exited.clean) {
    effects.push_back(
        Note{true, fmt::format("job {}: {} ended badly after the job was done: {}", plan_.job,
                               name_of(exited.actor, process), exited.how)});
  }
  finish_if_gone(effects);
}

RunState::Effects RunState::machine_lost(std::uint32_t machine, const std::string& reason) {
  Effects effects;
  if (over() || lost_[machine]) return effects;
  lost_[machine] = true;
  std::vector<std::string> names;
  for (auto& [actor, process] : processes_) {
    if (process.machine != machine) continue;
    names.push_back(actor.role == Role::parameter_server
                        ? actor.to_string()
                        : fmt::format("ranks {}", fmt::join(process.ranks, ", ")));
    process.gone = true;
  }
  fail(base::error(Errc::failed_precondition, "agent of machine '{}' is lost ({}), and with it {}",
                   plan_.placement.machines[machine], reason, fmt::join(names, ", ")),
       effects);
  finish_if_gone(effects);
  return effects;
}

RunState::Effects RunState::stop() {
  Effects effects;
  if (over()) return effects;
  if (phase_ == Phase::ending) {
    if (outcome_.ok()) end_processes(effects);  // the job is done: nothing waits to be scraped
    return effects;
  }
  stopped_ = true;
  fail(base::error(Errc::cancelled, "stopped by request"), effects);
  return effects;
}

void RunState::fail(const base::Status& status, Effects& effects) {
  if (over() || !outcome_.ok() || phase_ == Phase::ending) return;
  if (phase_ == Phase::probing || phase_ == Phase::reading) remove_probe(effects);
  outcome_ = status;
  if (job_) {
    run_effects(job_->fail(status), effects);
  } else {
    end(effects);
  }
}

void RunState::end(Effects& effects) {
  if (phase_ == Phase::ending || over()) return;
  phase_ = Phase::ending;
  info_.phase = schemas::JobPhase::stopping;
  if (outcome_.ok()) {
    // Processes end by themselves; a held one only after it has been scraped.
    const base::Limits& limits = plan_.spec.limits;
    const bool held = plan_.spec.train.hold == schemas::Hold::until_scraped;
    deadline_ms_ = now_ms_ + limits.stop_grace_ms + (held ? limits.hold_ms : 0);
  } else {
    end_processes(effects);  // a failed job has nothing to save
  }
  finish_if_gone(effects);
}

/// What does not end soon is killed.
void RunState::end_processes(Effects& effects) {
  const std::uint64_t grace_ms = plan_.spec.limits.stop_grace_ms / 4;
  for (std::uint32_t machine = 0; machine < lost_.size(); ++machine) {
    send(machine, schemas::StopProcesses{plan_.job, plan_.placement.generation, grace_ms}, effects);
  }
  deadline_ms_ = now_ms_ + grace_ms;
}

void RunState::finish_if_gone(Effects& effects) {
  if (phase_ != Phase::ending) return;
  for (const auto& [actor, process] : processes_) {
    if (!process.gone) return;
  }
  finish(effects);
}

void RunState::finish(Effects& effects) {
  phase_ = Phase::over;
  info_.samples_per_second = 0.0;
  info_.phase = outcome_.ok() ? schemas::JobPhase::succeeded
                : stopped_    ? schemas::JobPhase::stopped
                              : schemas::JobPhase::failed;
  info_.text = outcome_.text();
  if (!outcome_.ok() && info_.steps_total > 0) {  // else nobody knows where it would begin
    info_.text += info_.checkpoint.empty()
                      ? "; there is no checkpoint"
                      : fmt::format("; submitting it again resumes from {}", info_.checkpoint);
  }
  effects.push_back(Note{info_.phase == schemas::JobPhase::failed,
                         fmt::format("job {} {}{}{}", plan_.job, job_phase_name(info_.phase),
                                     info_.text.empty() ? "" : ": ", info_.text)});
}

RunState::Effects RunState::tick(std::uint64_t now_ms) {
  Effects effects;
  now_ms_ = now_ms;
  if (over()) return effects;
  if (suspicion_ && now_ms_ >= suspicion_->until_ms) fail(suspicion_->status, effects);
  if (phase_ == Phase::running) {
    run_effects(job_->tick(now_ms), effects);
  } else if (now_ms_ >= deadline_ms_ && phase_ == Phase::ending) {
    // Agents kill after the grace; they get the same again to say so.
    const std::uint64_t patience_ms = plan_.spec.limits.stop_grace_ms;
    if (outcome_.ok()) {
      outcome_ = base::error(Errc::deadline_exceeded, "{} did not end", waited_for());
      for (std::uint32_t machine = 0; machine < lost_.size(); ++machine) {
        send(machine, schemas::StopProcesses{plan_.job, plan_.placement.generation, 0}, effects);
      }
      deadline_ms_ = now_ms_ + patience_ms;
    } else if (now_ms_ >= deadline_ms_ + patience_ms) {
      effects.push_back(
          Note{true, fmt::format("job {}: {} may still run", plan_.job, waited_for())});
      finish(effects);
    }
  } else if (now_ms_ >= deadline_ms_) {
    fail(base::error(Errc::deadline_exceeded, "the job could not start: no answer of {}",
                     waited_for()),
         effects);
  }
  return effects;
}

std::string RunState::waited_for() const {
  std::vector<std::string> names;
  switch (phase_) {
    case Phase::probing:
    case Phase::reading:
      for (std::uint32_t machine = 0; machine < probed_.size(); ++machine) {
        if (probed_[machine] || (phase_ == Phase::probing && machine > 0)) continue;
        names.push_back(fmt::format("the agent of machine '{}' about checkpoint.dir {}",
                                    plan_.placement.machines[machine], plan_.spec.checkpoint.dir));
      }
      break;
    case Phase::finding:
      names.emplace_back("the coordinator's look at the job's files");
      break;
    default:
      for (const auto& [actor, process] : processes_) {
        const bool waits = phase_ == Phase::launching ? !process.ready : !process.gone;
        if (waits) names.push_back(name_of(actor, process));
      }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<ScrapeTarget> RunState::targets() const {
  std::vector<ScrapeTarget> targets;
  for (const auto& [actor, process] : processes_) {
    if (process.gone || !process.ready || process.ready->http_address.empty()) continue;
    const bool host = actor.role == Role::device_server;
    targets.push_back({process.ready->http_address, host ? "host" : "parameter_server",
                       plan_.placement.machines[process.machine],
                       fmt::format("{}", fmt::join(process.ranks, ",")), plan_.job});
  }
  return targets;
}

void RunState::send(std::uint32_t machine, schemas::Message message, Effects& effects) const {
  if (!lost_[machine]) effects.push_back(ToPeer{plan_.peers[machine], std::move(message)});
}

void RunState::send_probe(std::uint32_t machine, bool write, Effects& effects) const {
  send(machine,
       schemas::FolderProbe{plan_.job, plan_.placement.generation, plan_.spec.checkpoint.dir,
                            probe_file(plan_), plan_.job, write},
       effects);
}

RunState::Process* RunState::process_of(const ActorId& actor) {
  const auto machine = plan_.placement.machine_of(actor);
  if (!machine) return nullptr;
  const auto found = processes_.find(actor.role == Role::worker ? host_of(*machine) : actor);
  return found == processes_.end() ? nullptr : &found->second;
}

std::string RunState::name_of(const ActorId& actor, const Process& process) const {
  const std::string& machine = plan_.placement.machines[process.machine];
  if (actor.role == Role::parameter_server) {
    return fmt::format("{} on machine '{}'", actor.to_string(), machine);
  }
  return fmt::format("host process of machine '{}' (rank{} {})", machine,
                     process.ranks.size() == 1 ? "" : "s", fmt::join(process.ranks, ", "));
}

}  // namespace troupe::control
