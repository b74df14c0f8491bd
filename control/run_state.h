// SPDX-License-Identifier: Apache-2.0
// RunState: one job on its machines, from admission to its last process's end: do all machines see
// one checkpoint folder, where does it begin, are all processes up and of one numeric class; then
// JobState trains it; then the processes end. Every phase has a deadline and every failure names
// the process and its machine. Pure: no clock, thread or socket; the coordinator owns it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/control_events.h"
#include "control/job_state.h"

namespace troupe::control {

/// What a run needs to begin.
struct RunPlan {
  std::string job;       ///< id
  std::string job_text;  ///< encoded spec
  schemas::JobSpec spec;
  /// Machines and who is where; the run adds the rest. The generation is above those of the earlier
  /// runs of this id that the coordinator knows of, whose processes may still be there.
  schemas::Placement placement;
  std::vector<PeerId> peers;  ///< agent by machine index
};

/// A process that can be scraped.
struct ScrapeTarget {
  std::string address;  ///< HOST:PORT
  std::string role;     ///< "host", "parameter_server", "agent", "coordinator"
  std::string node;     ///< machine
  std::string ranks;    ///< "0,1"; empty for servers
  std::string job;      ///< id; empty for agents and the coordinator
  friend bool operator==(const ScrapeTarget&, const ScrapeTarget&) = default;
};

/// See the top of the file. Every call returns what is to be done, in order.
class RunState {
 public:
  using Effects = std::vector<CoordinatorEffect>;

  explicit RunState(RunPlan plan);

  Effects begin(std::uint64_t now_ms);
  /// A message of machine's agent about this job: ProcessMessage, ProcessExited, FolderProbeResult.
  Effects received(std::uint32_t machine, const schemas::Message& message);
  Effects start_found(const StartFound& found);
  Effects machine_lost(std::uint32_t machine, const std::string& reason);
  /// A person ends the job.
  Effects stop();
  Effects tick(std::uint64_t now_ms);

  /// Nothing of the job is left; its state is final.
  bool over() const { return phase_ == Phase::over; }
  const schemas::JobInfo& info() const { return info_; }
  const RunPlan& plan() const { return plan_; }
  /// See JobState.
  std::vector<std::uint32_t> missing_ranks() const {
    return job_ ? job_->missing_ranks() : std::vector<std::uint32_t>();
  }
  /// When this run's newest checkpoint became known, on the clock of tick(); 0: none yet.
  std::uint64_t checkpointed_ms() const { return checkpointed_ms_; }
  /// Processes that are up.
  std::vector<ScrapeTarget> targets() const;

 private:
  enum class Phase : std::uint8_t { probing, reading, finding, launching, running, ending, over };
  struct Process {
    std::uint32_t machine = 0;
    std::vector<std::uint32_t> ranks;  // of a host process
    std::optional<schemas::ProcessReady> ready;
    bool complained = false;  // has sent ActorFailed: its exit is no news
    bool gone = false;
  };
  struct Suspicion {
    base::Status status;
    std::uint64_t until_ms = 0;
  };

  void on_probe(std::uint32_t machine, const schemas::FolderProbeResult& result, Effects& effects);
  void on_message(std::uint32_t machine, const schemas::ProcessMessage& message, Effects& effects);
  void on_ready(Process& process, const schemas::ProcessReady& ready, Effects& effects);
  void on_failed(Process& process, const schemas::ActorFailed& failed, Effects& effects);
  void on_exit(std::uint32_t machine, const schemas::ProcessExited& exited, Effects& effects);

  void find_start(Effects& effects);
  void launch(Effects& effects);
  void begin_training(Effects& effects);
  base::Status check_classes() const;
  void run_effects(const std::vector<JobEffect>& done, Effects& effects);
  void stepped(const control::StepProgress& progress);
  void fail(const base::Status& status, Effects& effects);
  void end(Effects& effects);
  void end_processes(Effects& effects);
  void finish_if_gone(Effects& effects);
  void finish(Effects& effects);
  void remove_probe(Effects& effects);

  void send(std::uint32_t machine, schemas::Message message, Effects& effects) const;
  void send_probe(std::uint32_t machine, bool write, Effects& effects) const;
  Process* process_of(const schemas::ActorId& actor);
  std::string name_of(const schemas::ActorId& actor, const Process& process) const;
  std::string waited_for() const;

  RunPlan plan_;
  schemas::JobInfo info_;
  Phase phase_ = Phase::probing;
  std::uint64_t now_ms_ = 0;
  std::uint64_t deadline_ms_ = 0;  // of the phase; running has JobState's
  std::vector<bool> probed_;       // by machine
  std::vector<bool> lost_;         // by machine
  std::map<schemas::ActorId, Process> processes_;
  std::optional<JobState> job_;
  std::optional<Suspicion> suspicion_;
  base::Status outcome_;  // first cause
  bool stopped_ = false;
  std::uint64_t checkpointed_ms_ = 0;
  std::uint64_t stepped_ms_ = 0;       // of the last progress
  std::uint64_t stepped_samples_ = 0;  // of this run, by then
};

}  // namespace troupe::control
