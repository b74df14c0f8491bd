// SPDX-License-Identifier: Apache-2.0
// JobState: the coordinator's side of one running job, from the ranks' first reports to its end: it
// compares data files, starts training, adds up progress and scores, notes checkpoints, and ends
// the job with the first failure's cause or when everybody is done. Pure: no clock, thread or
// socket; one owner: a run (run_state.h), or the actor that stands for the coordinator in `troupe
// run`.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "control/control_events.h"
#include "control/extra_cut.h"
#include "control/job_progress.h"
#include "control/silence.h"
#include "schemas/message_families.h"

namespace troupe::control {

/// What a job consists of when its processes are up.
struct JobRoster {
  std::string job;
  std::uint64_t generation = 1;
  schemas::Placement placement;
  base::Limits limits;
  bool checkpoints = false;       ///< it writes any
  std::uint64_t steps_total = 0;  ///< of the job; where it writes checkpoints

  std::uint32_t ranks() const {
    return static_cast<std::uint32_t>(placement.machine_of_rank.size());
  }
  std::uint32_t shards() const {
    return static_cast<std::uint32_t>(placement.machine_of_shard.size());
  }
  /// All workers, device servers and parameter servers.
  std::vector<schemas::ActorId> actors() const;
};

/// Event: an actor of the job has sent a message. Unknown senders are ignored.
struct ActorSaid {
  schemas::ActorId from;
  schemas::Message message;
};
/// Event: a checkpoint is being copied, and its servers wait for that.
struct CopyUnderWay {};
/// Event: something outside has ended an actor's process, or a person ends the job.
struct Abort {
  base::Status status;
};

/// Effect: all ranks have reached a log point.
struct JobStepped {
  StepProgress progress;
};
/// Effect: all ranks have scored an epoch.
struct JobScored {
  EpochScore score;
};
/// Effect: a checkpoint is durable.
struct JobCheckpointed {
  std::uint64_t step = 0;
  std::string path;
};

/// See the top of the file.
class JobState {
 public:
  using Event = std::variant<Begin, Tick, ActorSaid, CopyUnderWay, CutWanted, Abort>;
  /// Note: somebody should know, but the job goes on. End: ok, or the first failure with the name
  /// of who failed.
  using Effect = std::variant<Send<schemas::ActorId>, JobStepped, JobScored, JobCheckpointed,
                              CutSettled, Note, End>;

  explicit JobState(JobRoster roster);

  /// Returns what is to be done, in order; nothing after End.
  std::vector<Effect> handle(const Event& event);

  bool ended() const { return ended_; }
  /// Ranks train: there may be steps that no checkpoint contains.
  bool trains() const { return started_ && !ended_; }
  const JobRoster& roster() const { return roster_; }
  /// Newest durable checkpoint of this run; empty: none yet.
  const std::string& checkpoint() const { return checkpoint_; }
  std::uint64_t step() const { return step_; }
  /// Ranks that have been waited for long, as a Note has told; none once something comes.
  const std::vector<std::uint32_t>& missing_ranks() const { return missing_; }
  /// What is known of every rank, by rank.
  std::vector<schemas::RankInfo> ranks() const;

 private:
  void on(const Begin& begin);
  void on(const Tick& tick);
  void on(const ActorSaid& said);
  void on(const CopyUnderWay&) { heard(); }
  void on(const CutWanted& wanted);
  void on(const Abort& abort);

  void on_message(const schemas::ActorId& from, const schemas::DatasetReport& report);
  void on_message(const schemas::ActorId& from, const schemas::ProgressReport& report);
  void on_message(const schemas::ActorId& from, const schemas::EvaluationReport& report);
  void on_message(const schemas::ActorId& from, const schemas::CheckpointReport& report);
  void on_message(const schemas::ActorId& from, const schemas::ServerReport& report);
  void on_message(const schemas::ActorId& from, const schemas::CutReady& ready);
  void on_message(const schemas::ActorId& from, const schemas::ExtraCutTaken& taken);
  void on_message(const schemas::ActorId& from, const schemas::ActorDone& done);
  void on_message(const schemas::ActorId& from, const schemas::ActorFailed& failed);
  /// What only the coordinator says to actors; and ProcessReady, which is over before the job
  /// begins and may be repeated by nobody but a broken process.
  template <schemas::OneOf<schemas::TrainingStart, schemas::JobEnd, schemas::Placement,
                           schemas::CutQuery, schemas::ExtraCut, schemas::ProcessReady>
                Own>
  void on_message(const schemas::ActorId&, const Own&) {}
  /// Actors have nothing of these to say to the coordinator.
  template <typename Other>
  requires schemas::DataMessage<Other> || schemas::AgentMessage<Other> ||
      schemas::PersonMessage<Other> || schemas::LinkMessage<Other>
  void on_message(const schemas::ActorId&, const Other&) {}

  /// The last words of a rank.
  struct Heard {
    std::uint64_t ms = 0;
    std::uint64_t progress_ms = 0;  // when training began, or of its last progress
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
    double samples_per_second = 0.0;
  };

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void cut();
  void note(const schemas::ProgressReport& report);
  void send_to_all(const schemas::Message& message);
  void start_training();
  bool servers_watch() const;
  void watch_servers();
  void end(const base::Status& status);
  std::vector<std::uint32_t> find_missing() const;
  std::string missing() const;
  void heard();

  JobRoster roster_;
  JobProgress progress_;
  Silence silence_;
  ExtraCut extra_cut_;
  std::map<std::uint32_t, schemas::DatasetReport> datasets_;  // by rank
  std::set<schemas::ActorId> done_;
  std::map<std::uint64_t, schemas::CheckpointReport> reported_;  // by step, the last few
  std::vector<Heard> heard_;                                     // by rank
  std::vector<Silence> servers_;  // of each shard's server, from the start of training
  std::string checkpoint_;
  std::uint64_t step_ = 0;
  std::uint64_t now_ms_ = 0;
  std::vector<std::uint32_t> missing_;  // in order
  bool begun_ = false;
  bool started_ = false;
  bool ended_ = false;
  std::vector<Effect> effects_;  // of the event that is being handled
};

}  // namespace troupe::control
