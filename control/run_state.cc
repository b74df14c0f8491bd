// SPDX-License-Identifier: Apache-2.0
// Transitions of a run.
#include "control/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/address.h"
#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "schemas/codec.h"

namespace troupe::control {

using base::Errc;
using schemas::ActorId;
using schemas::Role;

namespace {

ActorId host_of(std::uint32_t machine) {
  return {Role::device_server, machine};
}

/// "was killed by signal 9".
std::string text_of_end(const std::string& how) {
  constexpr std::string_view kHung = "hung: ";
  if (how.starts_with(kHung)) return "hung and was killed: " + how.substr(kHung.size());
  return (how.starts_with("signal") ? "was killed by " : "ended early: ") + how;
}

/// A cause as long as a job keeps one.
base::Status brief(const base::Status& status) {
  if (status.ok()) return status;
  return {status.code(), base::shortened(status.text(), kNoteBytesMax)};
}

}  // namespace

base::Status check_page(const std::string& address, const std::optional<std::string>& host,
                        const std::string& pages_host) {
  base::Status local = base::check_host(address, host);
  const bool beside = !pages_host.empty() && base::check_host(address, pages_host).ok();
  return beside ? base::Status() : local;
}

RunState::RunState(RunPlan plan) : plan_(std::move(plan)) {
  const schemas::Placement& placement = plan_.placement;
  TROUPE_CHECK(plan_.peers.size() == placement.machines.size(), "every machine has its agent");
  TROUPE_CHECK(plan_.hosts.size() == placement.machines.size(), "every agent calls from somewhere");
  TROUPE_CHECK(placement.gpu_of_rank.empty() ||
                   placement.gpu_of_rank.size() == placement.machine_of_rank.size(),
               "each rank has its GPU, or none has");
  TROUPE_CHECK(plan_.slot_of_rank.size() == placement.gpu_of_rank.size(), "a GPU is a slot's");
  info_.id = plan_.job;
  info_.name = plan_.spec.name;
  info_.phase = schemas::JobPhase::starting;
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
  const schemas::CheckpointSpec& checkpoints = plan_.spec.checkpoint;
  if (checkpoints.dir.empty()) return;
  folder_.emplace(FolderPlan{plan_.job, placement.generation, checkpoints.dir, checkpoints.keep,
                             placement.machines, plan_.peers, placement.machine_of_shard,
                             plan_.spec});
}

std::vector<RunState::Effect> RunState::handle(const Event& event) {
  if (over()) return {};
  std::visit([this](const auto& what) { on(what); }, event);
  perform_folder();
  TROUPE_CHECK(begun_ || effects_.empty(), "what has not begun does nothing");
  TROUPE_CHECK(over() == schemas::is_final(info_.phase), "a run is over when its phase is final");
  return std::exchange(effects_, {});
}

// ---- before the processes: what they begin with ----

void RunState::on(const Begin& begin) {
  TROUPE_CHECK(!begun_, "a run begins once");
  begun_ = true;
  now_ms_ = begun_ms_ = begin.now_ms;
  goodput_.placed(now_ms_);
  if (!folder_) return find_start();
  deadline_ms_ = now_ms_ + plan_.spec.limits.probe_ms;
  tell_detail(fmt::format("do all machines see {}?", plan_.spec.checkpoint.dir));
  folder_->probe();
}

void RunState::on(const AgentSaid& said) {
  TROUPE_CHECK(said.machine < lost_.size(), "the coordinator knows the run's machines");
  if (lost_[said.machine]) return;
  std::visit([&](const auto& report) { on_report(said.machine, report); }, said.report);
}

void RunState::find_start() {
  stage_ = Stage::finding;
  deadline_ms_ = now_ms_ + plan_.spec.limits.start_ms;
  tell_detail("where does it begin?");
  emit(FindStart{plan_.job, plan_.placement.generation, plan_.spec, folder_ && folder_->copied()});
}

/// An answer to an earlier run's search changes nothing. The generation is above that of every
/// checkpoint in the folder and of every run that the coordinator knows of: a process or a letter
/// of an earlier run is never taken for one of this.
void RunState::on(const StartFound& found) {
  if (stage_ != Stage::finding || found.run != plan_.placement.generation) return;
  if (!found.status.ok()) return fail(found.status);
  if (found.set_aside) {
    stage_ = Stage::probing;
    folder_->look_again();
    return judge_folder({});
  }
  plan_.placement.start_step = info_.step = found.step;
  std::uint64_t& generation = plan_.placement.generation;
  generation = std::max(generation, found.generation);
  if (folder_) generation = std::max(generation, folder_->highest() + 1);
  secret_ = found.secret;
  info_.steps_total = found.steps_total;
  info_.checkpoint = found.checkpoint;
  checkpoint_step_ = found.step;
  if (!found.checkpoint.empty()) {
    resumed_ = true;
    info_.text = fmt::format("goes on at step {} from {}", found.step, found.checkpoint);
    emit(Note{false, fmt::format("job {} {}", plan_.job, info_.text)});
  }
  info_.done_before = found.step == found.steps_total;
  if (info_.done_before) return finish();  // the checkpoint is the job's last
  if (folder_) folder_->begin(found, generation);
  if (!folder_ || folder_->placed()) return launch();
  stage_ = Stage::placing;
  deadline_ms_ = now_ms_ + plan_.spec.limits.stall_ms;
  tell_detail(fmt::format("sends {} to where it is read", found.checkpoint));
}

// ---- processes come up ----

void RunState::launch() {
  TROUPE_CHECK(stage_ == Stage::finding || stage_ == Stage::placing, "processes are launched once");
  TROUPE_CHECK(!processes_.empty(), "a run has processes");
  stage_ = Stage::launching;
  deadline_ms_ = now_ms_ + plan_.spec.limits.start_ms;
  tell_detail(fmt::format("generation {}: starts {} on {}", plan_.placement.generation,
                          base::format_counted(processes_.size(), "process"),
                          base::format_counted(plan_.placement.machines.size(), "machine")));
  for (auto& [actor, process] : processes_) {
    process.gone = false;
    schemas::LaunchProcess launch;
    launch.job = plan_.job;
    launch.generation = plan_.placement.generation;
    launch.actor = actor;
    launch.machine = process.machine;
    launch.ranks = process.ranks;
    // Also for a parameter server, which computes on none: all processes say one numeric class.
    for (std::uint32_t rank = 0; rank < plan_.placement.gpu_of_rank.size(); ++rank) {
      if (plan_.placement.machine_of_rank[rank] != process.machine) continue;
      launch.gpus.push_back(plan_.placement.gpu_of_rank[rank]);
    }
    launch.job_text = plan_.job_text;
    launch.machines = static_cast<std::uint32_t>(plan_.placement.machines.size());
    launch.secret = secret_;
    launch.checkpoint = info_.checkpoint;
    launch.copied = folder_ && folder_->copied();
    send(process.machine, std::move(launch));
  }
}

void RunState::on_report(std::uint32_t machine, const schemas::ProcessMessage& message) {
  Process* process = process_of(message.actor);
  if (process == nullptr || process->machine != machine || process->gone) return;
  const auto inner = schemas::decode_message(message.message);
  if (!inner.ok()) {
    return fail(inner.status().with_context(name_of(message.actor, *process)));
  }
  std::visit([&](const auto& said) { on_message(message.actor, *process, said); }, *inner);
}

/// A process listens on its machine and nowhere else: others would be sent there.
void RunState::on_message(const ActorId& from, Process& process,
                          const schemas::ProcessReady& ready) {
  if (stage_ != Stage::launching) return;
  const std::optional<std::string>& host = plan_.hosts[process.machine];
  base::Status local;
  if (!ready.address.empty()) local = base::check_host(ready.address, host);
  if (local.ok() && !ready.http_address.empty()) {
    local = check_page(ready.http_address, host, plan_.pages_host);
  }
  if (!local.ok()) return fail(local.with_context(name_of(from, process)));
  process.ready = ready;
  tell_detail(fmt::format("{} is ready: process {}, http://{}/metrics",
                          name_of(ready.actor, process), ready.pid, ready.http_address));
  for (const auto& [actor, other] : processes_) {
    if (!other.ready) return;
  }
  const base::Status status = check_classes();
  if (status.ok()) {
    begin_training();
  } else {
    fail(status);
  }
}

base::Status RunState::check_classes() const {
  if (!one_numeric_class(plan_.spec)) return {};
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

void RunState::begin_training() {
  TROUPE_CHECK(stage_ == Stage::launching, "training begins when the processes are up");
  TROUPE_CHECK(!job_, "a run trains once");
  stage_ = Stage::running;
  info_.phase = schemas::JobPhase::running;
  stepped_ms_ = now_ms_;
  goodput_.trains(info_.step, now_ms_);
  schemas::Placement& placement = plan_.placement;
  for (std::uint32_t shard = 0; shard < placement.machine_of_shard.size(); ++shard) {
    placement.shard_addresses.push_back(
        processes_.at({Role::parameter_server, shard}).ready->address);
  }
  emit(Note{false, fmt::format("job {} trains: {}, {}", plan_.job,
                               base::format_counted(placement.machine_of_rank.size(), "rank"),
                               base::format_counted(placement.machine_of_shard.size(),
                                                    "parameter server"))});
  job_.emplace(JobRoster{plan_.job, placement.generation, placement, plan_.spec.limits,
                         !plan_.spec.checkpoint.dir.empty(), info_.steps_total});
  hand_to_job(Begin{now_ms_});
}

// ---- the job trains ----

void RunState::hand_to_job(const JobState::Event& event) {
  TROUPE_CHECK(job_ && !job_->ended(), "the job is there while the run is running");
  for (const JobState::Effect& effect : job_->handle(event)) {
    std::visit([this](const auto& what) { perform(what); }, effect);
  }
  if (const base::Status unsent = std::exchange(unsent_, {}); !unsent.ok()) fail(unsent);
}

/// Actors of a job are spoken to through the agent of their machine. What is too large for a
/// message, as the placement of very many servers with long names, ends the run.
void RunState::perform(const Send<ActorId>& send_it) {
  const auto bytes = schemas::encode_message(send_it.message);
  if (!bytes.ok()) {
    unsent_ = bytes.status().with_context("cannot be sent");
    return;
  }
  const auto machine = plan_.placement.machine_of(send_it.to);
  TROUPE_CHECK(machine.has_value(), "a job speaks to its own actors only");
  send(*machine,
       schemas::ProcessMessage{plan_.job, plan_.placement.generation, send_it.to, *bytes});
}

void RunState::perform(const JobStepped& stepped) {
  const StepProgress& progress = stepped.progress;
  info_.step = progress.step;
  goodput_.stepped(progress.step, now_ms_);
  info_.text.clear();
  if (const auto loss = progress.metrics.find("cross_entropy"); loss != progress.metrics.end()) {
    info_.loss = loss->second.mean();
    if (!std::isfinite(info_.loss)) info_.text = divergence_text(progress.step, info_.loss);
  }
  if (now_ms_ > stepped_ms_ && progress.samples > stepped_samples_) {
    info_.samples_per_second = static_cast<double>(progress.samples - stepped_samples_) * 1000.0 /
                               static_cast<double>(now_ms_ - stepped_ms_);
  }
  info_.samples = progress.samples;
  stepped_ms_ = now_ms_;
  stepped_samples_ = progress.samples;
}

void RunState::perform(const JobScored& scored) {
  if (scored.score.samples == 0) {
    info_.accuracy = -1.0;
    return emit(
        Note{true, fmt::format("job {}: {}", plan_.job, no_score_text(scored.score.epoch))});
  }
  info_.accuracy = scored.score.accuracy();
}

void RunState::perform(const JobCheckpointed& checkpointed) {
  info_.checkpoint = checkpointed.path;
  info_.step = std::max(info_.step, checkpointed.step);  // ranks report more seldom
  checkpoint_step_ = checkpointed.step;
  goodput_.checkpointed(checkpointed.step);
  tell_detail("checkpoint " + checkpointed.path);
  checkpointed_ms_ = now_ms_;
}

void RunState::perform(const Note& note) {
  info_.text = base::shortened(note.text, kNoteBytesMax);
  emit(Note{note.warning, fmt::format("job {}: {}", plan_.job, note.text)});
}

void RunState::perform(const End& ended) {
  if (outcome_.ok()) outcome_ = brief(ended.status);
  end();
}

// ---- something goes wrong ----

/// An actor that has lost a peer complains before anybody knows why the peer is gone: a killed
/// child, a lost machine. That is a suspicion first (decision 0005): the agent that knows better
/// says so soon, and one that is dead itself has a cut link.
void RunState::on_message(const ActorId& from, Process& process,
                          const schemas::ActorFailed& failed) {
  process.complained = true;
  if (stage_ != Stage::launching && stage_ != Stage::running) return;
  const Errc code = failed.code == Errc::ok ? Errc::internal : failed.code;
  const base::Status status(
      code, fmt::format("{} failed: {}", plan_.placement.name_of(from), failed.text));
  if (code != Errc::unavailable) {
    fail(status);
  } else if (!suspicion_) {
    emit(Note{true, fmt::format("job {}: {}; its agents have {} ms to say why", plan_.job,
                                status.text(), plan_.spec.limits.suspicion_ms)});
    suspicion_ = Suspicion{status, now_ms_ + plan_.spec.limits.suspicion_ms, {}};
  }
  if (!suspicion_ || !failed.lost) return;
  if (const auto of = plan_.placement.machine_of(*failed.lost)) suspicion_->machines.insert(*of);
}

/// A signal is a cause of its own, even of a process that has complained. The exit of one that has
/// complained only says that it meant it: the cause is what it said, or what is suspected.
void RunState::on_report(std::uint32_t machine, const schemas::ProcessExited& exited) {
  const auto found = processes_.find(exited.actor);
  if (found == processes_.end() || found->second.machine != machine || found->second.gone) return;
  Process& process = found->second;
  process.gone = true;
  tell_detail(fmt::format("{} has ended: {}", name_of(exited.actor, process), exited.how));
  const bool killed = exited.how.starts_with("signal") || exited.how.starts_with("hung");
  const bool needed = stage_ == Stage::launching || stage_ == Stage::running;
  if (needed && (killed || !process.complained)) {
    fail(base::error(Errc::failed_precondition, "{} {}", name_of(exited.actor, process),
                     text_of_end(exited.how)));
  } else if (stage_ == Stage::running && suspicion_) {
    fail(suspicion_->status);
  } else if (stage_ == Stage::ending && outcome_.ok() && !exited.clean) {
    emit(Note{true, fmt::format("job {}: {} ended badly after the job was done: {}", plan_.job,
                                name_of(exited.actor, process), exited.how)});
  }
  finish_if_gone();
}

void RunState::on(const AgentCut& cut) {
  cut_[cut.machine] = cut.reason;
}

void RunState::on(const AgentBack& back) {
  cut_.erase(back.machine);
}

/// A lost peer and a cut link to its agent are one event: the machine is gone.
void RunState::judge_suspicion() {
  if (stage_ != Stage::launching && stage_ != Stage::running) return;
  const auto gone = std::find_if(cut_.begin(), cut_.end(), [this](const auto& entry) {
    return !lost_[entry.first] && suspicion_->machines.contains(entry.first);
  });
  if (gone == cut_.end() || !outcome_.ok()) return fail(suspicion_->status);
  emit(GiveUpAgent{plan_.peers[gone->first], gone->second});
}

/// Children die with their agent, so nothing of that machine is waited for any more.
void RunState::on(const AgentLost& lost) {
  TROUPE_CHECK(lost.machine < lost_.size(), "the coordinator knows the run's machines");
  TROUPE_CHECK(!lost_[lost.machine], "an agent is lost once");
  lost_[lost.machine] = true;
  for (auto& [actor, process] : processes_) {
    if (process.machine == lost.machine) process.gone = true;
  }
  fail(lost_machine(lost.machine, lost.reason));
  finish_if_gone();
}

/// The first cause stands. A job that trains is ended by JobState, whose actors are told why; one
/// that does not yet has nobody to tell.
void RunState::fail(const base::Status& status) {
  TROUPE_CHECK(!status.ok(), "a failure has a cause");
  if (over() || !outcome_.ok() || stage_ == Stage::ending) return;
  outcome_ = brief(status);
  if (job_) {
    hand_to_job(Abort{outcome_});
  } else {
    end();
  }
}

// ---- the end ----

void RunState::end() {
  TROUPE_CHECK(stage_ != Stage::ending && !over(), "a run ends once");
  TROUPE_CHECK(!job_ || job_->ended(), "the job's actors have been told");
  stage_ = Stage::ending;
  if (folder_) folder_->end();
  info_.phase = schemas::JobPhase::stopping;
  if (outcome_.ok()) {
    // Processes end by themselves; a held one only after it has been scraped.
    const base::Limits& limits = plan_.spec.limits;
    const bool held = plan_.spec.train.hold == schemas::Hold::until_scraped;
    deadline_ms_ = now_ms_ + limits.stop_grace_ms + (held ? limits.hold_ms : 0);
  } else {
    end_processes();  // a failed job has nothing to save
  }
  finish_if_gone();
}

/// What does not end soon is killed.
void RunState::end_processes() {
  const std::uint64_t grace_ms = plan_.spec.limits.stop_grace_ms / 4;
  send_stop(grace_ms);
  deadline_ms_ = now_ms_ + grace_ms;
}

void RunState::finish_if_gone() {
  if (stage_ != Stage::ending) return;
  for (const auto& [actor, process] : processes_) {
    if (!process.gone) return;
  }
  finish();
}

void RunState::finish() {
  TROUPE_CHECK(!over(), "a run is over once");
  TROUPE_CHECK(!stopped_ || !outcome_.ok(), "a stopped job has not succeeded");
  stage_ = Stage::over;
  if (folder_) folder_->let_go();
  goodput_.ended(outcome_.ok(), now_ms_);
  info_.samples_per_second = 0.0;
  info_.phase = outcome_.ok()         ? schemas::JobPhase::succeeded
                : stopped_ || moving_ ? schemas::JobPhase::stopped
                                      : schemas::JobPhase::failed;
  info_.text = outcome_.text();
  if (!uncut_.empty()) info_.text += "; " + base::shortened(uncut_, kNoteBytesMax);
  if (moves()) return;
  if (!outcome_.ok()) info_.text += way_on();
  emit(Note{info_.phase == schemas::JobPhase::failed,
            fmt::format("job {} {}{}{}", plan_.job, job_phase_name(info_.phase),
                        info_.text.empty() ? "" : ": ", info_.text)});
}

/// What is known here of where the job would go on. A checkpoint may be whole though nobody lived
/// to report it.
std::string RunState::way_on() const {
  const schemas::CheckpointSpec& how = plan_.spec.checkpoint;
  if (info_.steps_total == 0) return "";  // it was not looked up
  // A server has found damage in it and set it aside.
  if (outcome_.code() == Errc::data_loss && checkpointed_ms_ == 0) return "";
  if (how.dir.empty()) return "; it writes no checkpoints";
  std::string lost;
  if (stopped_ && info_.step > checkpoint_step_) {
    lost = fmt::format("; steps {} to {} are lost, which --checkpoint keeps", checkpoint_step_ + 1,
                       info_.step);
  }
  if (info_.checkpoint.empty()) return lost + "; no checkpoint was reported";
  if (!how.resume) return fmt::format("{}; its newest checkpoint is {}", lost, info_.checkpoint);
  if (checkpoint_step_ == info_.steps_total) {
    return fmt::format("; its last checkpoint, {}, is whole: submitting it again succeeds at once",
                       info_.checkpoint);
  }
  return fmt::format("{}; submitting it again resumes from {}", lost, info_.checkpoint);
}

// ---- deadlines ----

void RunState::on(const Tick& tick) {
  if (!begun_) return;  // the shell's clock may be first
  TROUPE_CHECK(tick.now_ms >= now_ms_, "a monotonic clock does not go back");
  now_ms_ = tick.now_ms;
  if (suspicion_ && now_ms_ >= suspicion_->until_ms) judge_suspicion();
  if (stage_ == Stage::running) watch_copies();  // which may end it
  if (stage_ == Stage::running) return hand_to_job(tick);
  if (over() || now_ms_ < deadline_ms_) return;
  if (stage_ == Stage::ending) return watch_ending();
  fail(base::error(Errc::deadline_exceeded, "the job could not start: no answer of {}",
                   waited_for()));
}

/// A job that is done but whose processes do not end has failed after all: they are killed. Agents
/// kill after the grace and get the same again to say so. What is silent even then may be a machine
/// that hangs; the job does not wait for it, and says so.
void RunState::watch_ending() {
  const std::uint64_t patience_ms = plan_.spec.limits.stop_grace_ms;
  if (outcome_.ok()) {
    outcome_ = base::error(Errc::deadline_exceeded, "{} did not end", waited_for());
    send_stop(0);
    deadline_ms_ = now_ms_ + patience_ms;
  } else if (now_ms_ >= deadline_ms_ + patience_ms) {
    emit(Note{true, fmt::format("job {}: {} may still run", plan_.job, waited_for())});
    finish();
  }
}

std::string RunState::waited_for() const {
  std::vector<std::string> names;
  switch (stage_) {
    case Stage::probing:
    case Stage::placing:
      if (folder_) names = folder_->waited_for();
      break;
    case Stage::finding:
      names.emplace_back("the coordinator's look at the job's files");
      break;
    default:
      for (const auto& [actor, process] : processes_) {
        const bool waits = stage_ == Stage::launching ? !process.ready : !process.gone;
        if (waits) names.push_back(name_of(actor, process));
      }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::map<std::uint32_t, std::uint64_t> RunState::left_behind() const {
  std::map<std::uint32_t, std::uint64_t> left;
  for (const auto& [actor, process] : processes_) {
    if (!over() || process.gone || actor.role != Role::device_server) continue;
    left[process.machine] = process.ready ? process.ready->pid : 0;
  }
  return left;
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

std::vector<schemas::RankInfo> RunState::ranks() const {
  if (job_) return job_->ranks();
  const schemas::Placement& placement = plan_.placement;
  std::vector<schemas::RankInfo> ranks(placement.machine_of_rank.size());
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].job = plan_.job;
    ranks[rank].rank = rank;
    ranks[rank].machine = placement.machines[placement.machine_of_rank[rank]];
    ranks[rank].gpu = placement.gpu_of({Role::worker, rank});
    ranks[rank].step = placement.start_step;
    ranks[rank].heard_ms = now_ms_ - begun_ms_;
  }
  return ranks;
}

void RunState::tell_detail(const std::string& text) {
  emit(Note{false, fmt::format("job {}: {}", plan_.job, text), true});
}

void RunState::send(std::uint32_t machine, schemas::Message message) {
  if (!lost_[machine]) emit(Send<PeerId>{plan_.peers[machine], std::move(message)});
}

void RunState::send_stop(std::uint64_t grace_ms) {
  for (std::uint32_t machine = 0; machine < lost_.size(); ++machine) {
    send(machine, schemas::StopProcesses{plan_.job, plan_.placement.generation, grace_ms});
  }
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
