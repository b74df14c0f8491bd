// SPDX-License-Identifier: Apache-2.0
// CoordinatorState: the cluster's agents and jobs. Agents join with their slots; a job waits until
// slots are free, then runs (run_state.h); people submit, list, stop and wait. Final states never
// change. Pure: no clock, thread or socket; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "control/control_events.h"
#include "control/run_state.h"

namespace troupe::control {

/// What a coordinator is given.
struct CoordinatorOptions {
  std::string version;  ///< agents of another one are refused
  base::Limits limits;
};

/// What stands in the coordinator's metrics.
struct CoordinatorCounts {
  std::map<schemas::JobPhase, std::uint64_t> jobs;
  std::uint64_t agents = 0;
  std::uint64_t slots = 0;
  std::uint64_t slots_used = 0;
};

/// A job in the coordinator's metrics.
struct ScrapedJob {
  schemas::JobInfo info;
  std::uint64_t checkpointed_ms = 0;         ///< when its newest checkpoint came; 0: never
  std::vector<std::uint32_t> missing_ranks;  ///< waited for long
};

/// See the top of the file.
class CoordinatorState {
 public:
  using Effects = std::vector<CoordinatorEffect>;

  explicit CoordinatorState(CoordinatorOptions options);

  /// Returns what is to be done, in order.
  Effects handle(const CoordinatorEvent& event);

  /// Every job in order of submission.
  std::vector<schemas::JobInfo> jobs() const;
  /// Jobs that metrics show: until finished_job_ms after their end.
  std::vector<ScrapedJob> scraped_jobs() const;
  /// Every process that can be scraped, agents included.
  std::vector<ScrapeTarget> targets() const;
  CoordinatorCounts counts() const;

 private:
  struct Agent {
    schemas::AgentHello hello;
    std::uint64_t number = 0;  // in order of joining
  };
  struct Job {
    std::string text;
    schemas::JobSpec spec;
    schemas::JobInfo info;         // while there is no run
    std::uint64_t generation = 1;  // of its run at least: above those of earlier submissions
    std::unique_ptr<RunState> run;
    std::uint64_t submitted_ms = 0;
    std::uint64_t ended_ms = 0;  // 0: not final
    std::set<PeerId> waiting;    // for the final state
  };
  using Jobs = std::map<std::uint64_t, Job>;  // by number

  void on(const PeerSaid& said, Effects& effects);
  void on(const PeerLost& lost, Effects& effects);
  void on(const StartFound& found, Effects& effects);
  void on(const TimePassed& time, Effects& effects);

  void on_message(PeerId peer, const schemas::AgentHello& hello, Effects& effects);
  void on_message(PeerId peer, const schemas::JobSubmit& submit, Effects& effects);
  void on_message(PeerId peer, const schemas::JobQuery& query, Effects& effects);
  void on_message(PeerId peer, const schemas::JobStop& stop, Effects& effects);
  void on_message(PeerId peer, const schemas::FolderProbeResult& result, Effects& effects);
  void on_message(PeerId peer, const schemas::ProcessMessage& message, Effects& effects);
  void on_message(PeerId peer, const schemas::ProcessExited& exited, Effects& effects);
  template <typename Other>
  void on_message(PeerId peer, const Other&, Effects& effects) {
    refuse(peer, effects);
  }

  template <typename Message>
  void to_run(PeerId peer, const Message& message, Effects& effects);
  void refuse(PeerId peer, Effects& effects);
  base::Result<schemas::JobSubmitted> submit(const schemas::JobSubmit& submit);
  base::Status make_room();
  std::string choose_id(const schemas::JobSpec& spec, const std::string& text) const;
  /// Starts what fits, answers who waits.
  void settle(Effects& effects);
  void admit(Job& job, Effects& effects);
  /// Of the agents that are there; a lost one's job is ending.
  std::map<PeerId, std::uint32_t> used_slots() const;
  Job* find(const std::string& id);
  schemas::JobInfo info_of(const Job& job) const;

  CoordinatorOptions options_;
  std::uint64_t now_ms_ = 0;
  std::uint64_t next_job_ = 1;
  std::uint64_t next_agent_ = 0;
  std::map<PeerId, Agent> agents_;
  Jobs jobs_;
};

}  // namespace troupe::control
