// SPDX-License-Identifier: Apache-2.0
// Transitions of a job.
#include "control/job_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace troupe::control {

using schemas::ActorId;
using schemas::Role;

namespace {

/// Checkpoints whose reports may come again: more than a run has in flight.
constexpr std::size_t kReportsKept = 8;

/// What two ranks have found in place of one file.
base::Status differ(const schemas::FoundFile& first, std::uint32_t first_rank,
                    const schemas::FoundFile& other, std::uint32_t other_rank,
                    const schemas::Placement& placement) {
  const auto text = [&](const schemas::FoundFile& found, std::uint32_t rank) {
    return fmt::format("{}: {} records, {} bytes, checksum {:08x}",
                       placement.name_of({Role::worker, rank}), found.records, found.bytes,
                       found.checksum);
  };
  return base::error(base::Errc::failed_precondition, "{} is not the same file everywhere: {}; {}",
                     first.file, text(first, first_rank), text(other, other_rank));
}

}  // namespace

std::vector<ActorId> JobRoster::actors() const {
  std::vector<ActorId> all;
  for (std::uint32_t shard = 0; shard < shards(); ++shard) {
    all.push_back({Role::parameter_server, shard});
  }
  const std::set<std::uint32_t> machines(placement.machine_of_rank.begin(),
                                         placement.machine_of_rank.end());
  for (const std::uint32_t machine : machines) all.push_back({Role::device_server, machine});
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) all.push_back({Role::worker, rank});
  return all;
}

JobState::JobState(JobRoster roster)
    : roster_(std::move(roster)),
      progress_(roster_.ranks()),
      silence_(roster_.limits),
      extra_cut_({roster_.placement, roster_.steps_total, roster_.limits.cut_ms}) {}

std::vector<JobState::Effect> JobState::handle(const Event& event) {
  if (ended_) return {};
  std::visit([this](const auto& what) { on(what); }, event);
  TROUPE_CHECK(begun_ || effects_.empty(), "what has not begun does nothing");
  return std::exchange(effects_, {});
}

void JobState::on(const Begin& begin) {
  TROUPE_CHECK(!begun_, "a job begins once");
  TROUPE_CHECK(roster_.ranks() > 0, "a job has ranks");
  begun_ = true;
  now_ms_ = begin.now_ms;
  step_ = roster_.placement.start_step;
  silence_.heard(now_ms_);
  heard_.assign(roster_.ranks(), Heard{now_ms_, now_ms_, step_});
  // Ranks look at their data files as soon as they know where everybody is, and report them.
  send_to_all(roster_.placement);
}

/// Every actor speaks for itself: a message about another one is not heard.
void JobState::on(const ActorSaid& said) {
  std::visit([&](const auto& message) { on_message(said.from, message); }, said.message);
}

/// Before training there is nothing to save.
void JobState::on(const CutWanted& wanted) {
  if (!started_ || !roster_.checkpoints) {
    return emit(
        CutSettled{wanted.wish,
                   base::Status(base::Errc::failed_precondition,
                                started_ ? "checkpoint.dir is not set" : "training has not begun"),
                   0,
                   {}});
  }
  extra_cut_.want(wanted, now_ms_);
  cut();
}

void JobState::cut() {
  for (ExtraCut::Effect& effect : extra_cut_.take_effects()) {
    std::visit([this](auto& what) { emit(std::move(what)); }, effect);
  }
}

/// Each server answers for itself.
void JobState::on_message(const ActorId& from, const schemas::CutReady& ready) {
  if (from != ActorId{Role::device_server, ready.machine}) return;
  extra_cut_.take(ready);
  cut();
}

void JobState::on_message(const ActorId& from, const schemas::ExtraCutTaken& taken) {
  if (from != ActorId{Role::parameter_server, taken.shard}) return;
  extra_cut_.take(taken);
  cut();
}

void JobState::on(const Abort& abort) {
  end(abort.status);
}

void JobState::on(const Tick& tick) {
  if (!begun_) return;  // the shell's clock may be first
  TROUPE_CHECK(tick.now_ms >= now_ms_, "a monotonic clock does not go back");
  now_ms_ = tick.now_ms;
  extra_cut_.tick(now_ms_);
  cut();
  if (servers_watch()) return watch_servers();
  const SilenceFinding found = silence_.check(now_ms_);
  switch (found.verdict) {
    case SilenceFinding::Verdict::quiet:
      return;
    case SilenceFinding::Verdict::warn:
      missing_ = find_missing();
      return emit(
          Note{true, fmt::format("no progress for {} s: {}", found.silent_ms / 1000, missing())});
    case SilenceFinding::Verdict::fail:
      return end(base::error(base::Errc::deadline_exceeded, "no progress for {} s: {}",
                             found.silent_ms / 1000, missing()));
  }
}

/// Any sign of progress, of whatever kind: the next silence is told anew.
void JobState::heard() {
  silence_.heard(now_ms_);
  missing_.clear();
}

/// While ranks train the parameter servers see every push and judge silence, and ranks bound their
/// own waits. Here one would only learn how often ranks log. Before training, and once a tier is
/// done, nobody else looks.
bool JobState::servers_watch() const {
  const auto done = [this](Role role) {
    return std::count_if(done_.begin(), done_.end(),
                         [role](const ActorId& actor) { return actor.role == role; });
  };
  return started_ && done(Role::worker) < std::int64_t{roster_.ranks()} &&
         done(Role::parameter_server) < std::int64_t{roster_.shards()};
}

/// A server judges the silence of ranks, and somebody has to judge its own: a process whose links
/// answer may have an actor that does nothing any more, and all ranks would wait for it for ever.
void JobState::watch_servers() {
  for (std::uint32_t shard = 0; shard < servers_.size(); ++shard) {
    const ActorId server{Role::parameter_server, shard};
    if (done_.contains(server)) continue;
    const SilenceFinding found = servers_[shard].check(now_ms_);
    if (found.verdict == SilenceFinding::Verdict::quiet) continue;
    const base::Status silent = base::error(
        base::Errc::deadline_exceeded, "{} has not reported for {} s, though its process lives",
        roster_.placement.name_of(server), found.silent_ms / 1000);
    if (found.verdict == SilenceFinding::Verdict::fail) return end(silent);
    emit(Note{true, silent.text()});
  }
}

void JobState::on_message(const ActorId& from, const schemas::ServerReport& report) {
  if (from != ActorId{Role::parameter_server, report.shard}) return;
  if (report.shard < servers_.size()) servers_[report.shard].heard(now_ms_);
}

/// Training over files that differ, and scores over parts of several test sets, would be wrong
/// without a sign of it, so nobody trains before all ranks have found the same files.
void JobState::on_message(const ActorId& from, const schemas::DatasetReport& report) {
  if (from != ActorId{Role::worker, report.rank}) return;
  if (report.rank >= roster_.ranks() || started_) return;
  heard();
  heard_[report.rank].ms = now_ms_;
  datasets_.emplace(report.rank, report);
  // All the others agree, so one of them will do: with the lowest rank.
  const schemas::DatasetReport* first = &datasets_.begin()->second;
  const schemas::DatasetReport* second = &report;
  if (first->rank == report.rank && datasets_.size() > 1) {
    second = &std::next(datasets_.begin())->second;
  }
  for (const auto set : {&schemas::DatasetReport::train, &schemas::DatasetReport::test}) {
    if ((second->*set).same_content(first->*set)) continue;
    return end(differ(first->*set, first->rank, second->*set, second->rank, roster_.placement));
  }
  if (datasets_.size() == roster_.ranks()) start_training();
}

void JobState::start_training() {
  TROUPE_CHECK(!started_, "training starts once");
  TROUPE_CHECK(datasets_.size() == roster_.ranks(), "every rank has reported its data");
  started_ = true;
  servers_.assign(roster_.shards(), Silence(roster_.limits));
  for (Silence& server : servers_) server.heard(now_ms_);
  for (Heard& rank : heard_) rank.progress_ms = now_ms_;
  const schemas::FoundFile& data = datasets_.begin()->second.train;
  send_to_all(schemas::TrainingStart{roster_.placement.start_step, data.records, data.bytes,
                                     data.checksum});
}

void JobState::on_message(const ActorId& from, const schemas::ProgressReport& report) {
  if (from != ActorId{Role::worker, report.rank}) return;
  if (report.rank >= roster_.ranks()) return;
  heard();
  note(report);
  if (const auto sum = progress_.add(report)) {
    step_ = sum->step;
    emit(JobStepped{*sum});
  }
}

void JobState::on_message(const ActorId& from, const schemas::EvaluationReport& report) {
  if (from != ActorId{Role::worker, report.rank}) return;
  if (report.rank >= roster_.ranks()) return;
  heard();
  heard_[report.rank].ms = now_ms_;
  if (const auto score = progress_.add(report)) emit(JobScored{*score});
}

/// A checkpoint that was given up costs only what a resume would repeat: the shard that writes
/// manifests judges when too many have failed, and says so by ActorFailed.
/// The shard waits for the word that the coordinator knows. It may ask again.
void JobState::on_message(const ActorId& from, const schemas::CheckpointReport& report) {
  if (from.role != Role::parameter_server) return;
  heard();
  const bool forgotten = reported_.size() >= kReportsKept && report.step < reported_.begin()->first;
  if (forgotten) return emit(Send<ActorId>{from, report});  // told long ago
  const auto [known, is_new] = reported_.try_emplace(report.step, report);
  emit(Send<ActorId>{from, known->second});
  if (!is_new) return;
  while (reported_.size() > kReportsKept) reported_.erase(reported_.begin());
  if (report.code != base::Errc::ok) {
    // The text names the file, and with it the shard; the sender collects for all.
    emit(Note{true,
              fmt::format("checkpoint of step {} was given up: {}", report.step, report.text)});
  } else {
    checkpoint_ = report.path;
    emit(JobCheckpointed{report.step, report.path});
  }
  extra_cut_.take(report);
  cut();
}

/// The job is done when all ranks and all shards are: a shard's last checkpoint comes after the
/// last rank's last step. Device servers hold nothing that is not elsewhere, so nobody waits for
/// them. The word may come again, therefore a set.
void JobState::on_message(const ActorId& from, const schemas::ActorDone& done) {
  if (from != done.actor || !roster_.placement.machine_of(done.actor)) return;
  heard();
  if (done.actor.role == Role::worker) heard_[done.actor.index].ms = now_ms_;
  done_.insert(done.actor);
  std::uint32_t open = roster_.ranks() + roster_.shards();
  for (const ActorId& actor : done_) {
    if (actor.role == Role::worker || actor.role == Role::parameter_server) --open;
  }
  if (open == 0) end({});
}

void JobState::on_message(const ActorId& from, const schemas::ActorFailed& failed) {
  // Who says that it failed has failed, whatever code it gives.
  const base::Errc code = failed.code == base::Errc::ok ? base::Errc::internal : failed.code;
  end(base::Status(code,
                   fmt::format("{} failed: {}", roster_.placement.name_of(from), failed.text)));
}

void JobState::end(const base::Status& status) {
  TROUPE_CHECK(!ended_, "a job ends once: the first cause stands");
  ended_ = true;
  missing_.clear();
  // Also to those that have failed: a role that still runs must learn that nobody waits for it.
  // (The text may name thousands of ranks, and there is a copy for each actor.)
  send_to_all(schemas::JobEnd{status.code(), base::shortened(status.text(), kNoteBytesMax)});
  extra_cut_.end(status);
  cut();
  emit(End{status});
}

void JobState::send_to_all(const schemas::Message& message) {
  for (const ActorId& actor : roster_.actors()) emit(Send<ActorId>{actor, message});
}

/// A report that comes again changes nothing.
void JobState::note(const schemas::ProgressReport& report) {
  Heard& rank = heard_[report.rank];
  rank.ms = now_ms_;
  if (report.step <= rank.step) return;
  if (now_ms_ > rank.progress_ms && report.samples > rank.samples) {
    rank.samples_per_second = static_cast<double>(report.samples - rank.samples) * 1000.0 /
                              static_cast<double>(now_ms_ - rank.progress_ms);
  }
  rank.progress_ms = now_ms_;
  rank.step = report.step;
  rank.samples = report.samples;
}

std::vector<schemas::RankInfo> JobState::ranks() const {
  using schemas::RankPhase;
  std::vector<schemas::RankInfo> ranks(heard_.size());
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const Heard& heard = heard_[rank];
    schemas::RankInfo& info = ranks[rank];
    info.job = roster_.job;
    info.rank = rank;
    info.machine = roster_.placement.machines[roster_.placement.machine_of_rank[rank]];
    info.gpu = roster_.placement.gpu_of({Role::worker, rank});
    info.step = heard.step;
    info.samples_per_second = heard.samples_per_second;
    info.heard_ms = now_ms_ - heard.ms;
    info.phase = started_                   ? RankPhase::training
                 : datasets_.contains(rank) ? RankPhase::waiting
                                            : RankPhase::reading;
    if (std::ranges::binary_search(missing_, rank)) {
      info.phase = RankPhase::missing;
    }
    if (done_.contains({Role::worker, rank})) info.phase = RankPhase::done;
  }
  return ranks;
}

std::vector<std::uint32_t> JobState::find_missing() const {
  std::vector<std::uint32_t> ranks;
  const std::vector<std::uint32_t> late = progress_.missing();
  for (std::uint32_t rank = 0; rank < roster_.ranks(); ++rank) {
    const bool lacks = !started_       ? !datasets_.contains(rank)
                       : !late.empty() ? std::find(late.begin(), late.end(), rank) != late.end()
                                       : !done_.contains({Role::worker, rank});
    if (lacks) ranks.push_back(rank);
  }
  return ranks;
}

std::string JobState::missing() const {
  std::vector<std::string> names;
  for (const std::uint32_t rank : find_missing()) {
    names.push_back(roster_.placement.name_of({Role::worker, rank}));
  }
  for (std::uint32_t shard = 0; started_ && names.empty() && shard < roster_.shards(); ++shard) {
    const ActorId server{Role::parameter_server, shard};
    if (!done_.contains(server)) names.push_back(roster_.placement.name_of(server));
  }
  return fmt::format("waiting for {}", fmt::join(names, ", "));
}

}  // namespace troupe::control
