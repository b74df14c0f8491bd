// SPDX-License-Identifier: Apache-2.0
// JobState: the coordinator's side of one running job, from the ranks' first reports to its end: it
// compares data files, starts training, adds up progress and scores, notes checkpoints, and ends
// the job with the first failure's cause or when everybody is done. Pure: no clock, thread or
// socket; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "control/job_progress.h"
#include "schemas/messages.h"

namespace troupe::control {

/// What a job consists of when its processes are up.
struct JobRoster {
  std::string job;
  std::uint64_t generation = 1;
  schemas::Placement placement;
  base::Limits limits;

  std::uint32_t ranks() const {
    return static_cast<std::uint32_t>(placement.machine_of_rank.size());
  }
  std::uint32_t shards() const {
    return static_cast<std::uint32_t>(placement.machine_of_shard.size());
  }
  /// All workers, device servers and parameter servers.
  std::vector<schemas::ActorId> actors() const;
};

/// Hand the message to an actor of the job.
struct JobSend {
  schemas::ActorId to;
  schemas::Message message;
};
/// All ranks have reached a log point.
struct JobStepped {
  control::StepProgress progress;
};
/// All ranks have scored an epoch.
struct JobScored {
  control::EpochScore score;
};
/// A checkpoint is durable.
struct JobCheckpointed {
  std::uint64_t step = 0;
  std::string path;
};
/// Somebody should know, but the job goes on.
struct JobWarned {
  std::string text;
};
/// The last effect. ok, or the first failure with the name of who failed.
struct JobEnded {
  base::Status status;
};

using JobEffect =
    std::variant<JobSend, JobStepped, JobScored, JobCheckpointed, JobWarned, JobEnded>;

/// See the top of the file. Every call returns what is to be done, in order.
class JobState {
 public:
  explicit JobState(JobRoster roster);

  /// Sends the placement to every actor.
  std::vector<JobEffect> begin(std::uint64_t now_ms);
  /// A message of one of the job's actors; unknown senders and kinds are ignored.
  std::vector<JobEffect> received(const schemas::ActorId& from, const schemas::Message& message);
  /// Something outside ended an actor's process, or a person ends the job.
  std::vector<JobEffect> fail(const base::Status& status);
  std::vector<JobEffect> tick(std::uint64_t now_ms);

  bool ended() const { return ended_; }
  const JobRoster& roster() const { return roster_; }
  /// Newest durable checkpoint of this run; empty: none yet.
  const std::string& checkpoint() const { return checkpoint_; }
  std::uint64_t step() const { return step_; }
  /// Ranks that have been waited for long, as JobWarned has told; none once something comes.
  const std::vector<std::uint32_t>& missing_ranks() const { return missing_; }

 private:
  using Effects = std::vector<JobEffect>;

  void on(const schemas::ActorId& from, const schemas::DatasetReport& report, Effects& effects);
  void on(const schemas::ActorId& from, const schemas::ProgressReport& report, Effects& effects);
  void on(const schemas::ActorId& from, const schemas::EvaluationReport& report, Effects& effects);
  void on(const schemas::ActorId& from, const schemas::CheckpointReport& report, Effects& effects);
  void on(const schemas::ActorId& from, const schemas::ActorDone& done, Effects& effects);
  void on(const schemas::ActorId& from, const schemas::ActorFailed& failed, Effects& effects);
  template <typename Other>
  void on(const schemas::ActorId&, const Other&, Effects&) {}

  void start_training(Effects& effects);
  /// Ranks train: the parameter servers see every push and judge silence, and ranks bound their
  /// waits. Here one would only learn how often ranks log.
  bool servers_watch() const;
  void end(const base::Status& status, Effects& effects);
  std::vector<std::uint32_t> find_missing() const;
  std::string missing() const;
  void heard();

  JobRoster roster_;
  control::JobProgress progress_;
  std::map<std::uint32_t, schemas::DatasetReport> datasets_;
  std::set<schemas::ActorId> done_;
  std::string checkpoint_;
  std::uint64_t step_ = 0;
  std::uint64_t now_ms_ = 0;
  std::uint64_t heard_ms_ = 0;  // last sign of progress
  bool missing_logged_ = false;
  std::vector<std::uint32_t> missing_;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace troupe::control
