// SPDX-License-Identifier: Apache-2.0
// Transitions of a job.
#include "control/job_state.h"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::control {

using schemas::ActorId;
using schemas::Role;

std::vector<ActorId> JobRoster::actors() const {
  std::vector<ActorId> all;
  for (std::uint32_t shard = 0; shard < shards(); ++shard) {
    all.push_back({Role::parameter_server, shard});
  }
  std::set<std::uint32_t> machines(placement.machine_of_rank.begin(),
                                   placement.machine_of_rank.end());
  for (const std::uint32_t machine : machines) all.push_back({Role::device_server, machine});
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) all.push_back({Role::worker, rank});
  return all;
}

JobState::JobState(JobRoster roster) : roster_(std::move(roster)), progress_(roster_.ranks()) {}

std::vector<JobEffect> JobState::begin(std::uint64_t now_ms) {
  now_ms_ = heard_ms_ = now_ms;
  step_ = roster_.placement.start_step;
  Effects effects;
  for (const ActorId& actor : roster_.actors()) {
    effects.push_back(JobSend{actor, roster_.placement});
  }
  return effects;
}

std::vector<JobEffect> JobState::received(const ActorId& from, const schemas::Message& message) {
  Effects effects;
  if (ended_) return effects;
  std::visit([&](const auto& content) { on(from, content, effects); }, message);
  return effects;
}

std::vector<JobEffect> JobState::fail(const base::Status& status) {
  Effects effects;
  end(status, effects);
  return effects;
}

std::vector<JobEffect> JobState::tick(std::uint64_t now_ms) {
  Effects effects;
  now_ms_ = now_ms;
  if (ended_ || servers_watch()) return effects;
  const std::uint64_t silent_ms = now_ms - heard_ms_;
  if (silent_ms >= roster_.limits.stall_ms) {
    end(base::error(base::Errc::deadline_exceeded, "no progress for {} s: {}", silent_ms / 1000,
                    missing()),
        effects);
  } else if (silent_ms >= roster_.limits.missing_log_ms && !missing_logged_) {
    missing_logged_ = true;
    missing_ = find_missing();
    effects.push_back(
        JobWarned{fmt::format("no progress for {} s: {}", silent_ms / 1000, missing())});
  }
  return effects;
}

void JobState::heard() {
  heard_ms_ = now_ms_;
  missing_.clear();
}

bool JobState::servers_watch() const {
  const auto done = [this](Role role) {
    return std::count_if(done_.begin(), done_.end(),
                         [role](const ActorId& actor) { return actor.role == role; });
  };
  return started_ && done(Role::worker) < std::int64_t{roster_.ranks()} &&
         done(Role::parameter_server) < std::int64_t{roster_.shards()};
}

void JobState::on(const ActorId&, const schemas::DatasetReport& report, Effects& effects) {
  if (report.rank >= roster_.ranks() || started_) return;
  heard();
  datasets_.emplace(report.rank, report);
  const schemas::DatasetReport& first = datasets_.begin()->second;
  for (const auto& [rank, other] : datasets_) {
    if (other.records == first.records && other.bytes == first.bytes &&
        other.checksum == first.checksum) {
      continue;
    }
    const auto text = [&](const schemas::DatasetReport& seen) {
      return fmt::format("{}: {} records, {} bytes, checksum {:08x}",
                         roster_.placement.name_of({Role::worker, seen.rank}), seen.records,
                         seen.bytes, seen.checksum);
    };
    end(base::error(base::Errc::failed_precondition, "{} is not the same file everywhere: {}; {}",
                    first.file, text(first), text(other)),
        effects);
    return;
  }
  if (datasets_.size() == roster_.ranks()) start_training(effects);
}

void JobState::start_training(Effects& effects) {
  started_ = true;
  const schemas::TrainingStart start{roster_.placement.start_step,
                                     datasets_.begin()->second.records};
  for (const ActorId& actor : roster_.actors()) effects.emplace_back(JobSend{actor, start});
}

void JobState::on(const ActorId&, const schemas::ProgressReport& report, Effects& effects) {
  if (report.rank >= roster_.ranks()) return;
  heard();
  missing_logged_ = false;
  if (const auto sum = progress_.add(report)) {
    step_ = sum->step;
    effects.push_back(JobStepped{*sum});
  }
}

void JobState::on(const ActorId&, const schemas::EvaluationReport& report, Effects& effects) {
  if (report.rank >= roster_.ranks()) return;
  heard();
  if (const auto score = progress_.add(report)) effects.push_back(JobScored{*score});
}

void JobState::on(const ActorId& from, const schemas::CheckpointReport& report, Effects& effects) {
  heard();
  if (report.code != base::Errc::ok) {
    effects.push_back(
        JobWarned{fmt::format("{}: checkpoint of step {} was given up: {}",
                              roster_.placement.name_of(from), report.step, report.text)});
    return;
  }
  checkpoint_ = report.path;
  effects.push_back(JobCheckpointed{report.step, report.path});
}

void JobState::on(const ActorId&, const schemas::ActorDone& done, Effects& effects) {
  heard();
  done_.insert(done.actor);
  std::uint32_t open = roster_.ranks() + roster_.shards();
  for (const ActorId& actor : done_) {
    if (actor.role == Role::worker || actor.role == Role::parameter_server) --open;
  }
  if (open == 0) end({}, effects);
}

void JobState::on(const ActorId&, const schemas::ActorFailed& failed, Effects& effects) {
  const base::Errc code = failed.code == base::Errc::ok ? base::Errc::internal : failed.code;
  end(base::Status(
          code, fmt::format("{} failed: {}", roster_.placement.name_of(failed.actor), failed.text)),
      effects);
}

void JobState::end(const base::Status& status, Effects& effects) {
  if (ended_) return;
  ended_ = true;
  missing_.clear();
  for (const ActorId& actor : roster_.actors()) {
    effects.push_back(JobSend{actor, schemas::JobEnd{status.code(), status.text()}});
  }
  effects.push_back(JobEnded{status});
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
