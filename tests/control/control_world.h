// SPDX-License-Identifier: Apache-2.0
// A whole cluster for tests of the control plane: coordinator and agents are the real state
// machines, links and processes are played from a seed: messages are delayed, processes killed or
// hung, agents and links cut. One thread, no clock: time is the queue's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "control/agent_state.h"
#include "control/coordinator_state.h"

namespace troupe::control::testing {

/// What one played process does.
enum class Fate : std::uint8_t {
  well,
  never_ready,  ///< starts and says nothing
  hangs,        ///< reacts to nothing once it trains, not even SIGTERM
  lingers,      ///< hangs, and SIGKILL takes its time, as in an uninterruptible sleep
  endless,      ///< trains until it is stopped
  killed,       ///< SIGKILL while it trains
  fails,        ///< says ActorFailed, exits 1
  exits         ///< exits 3 without a word
};

/// See the top of the file.
class ControlWorld {
 public:
  /// `agents`: CoordinatorOptions::agents.
  explicit ControlWorld(std::uint64_t seed, std::uint64_t agents = 0);

  /// Limits of the coordinator, the agents and, in job_text(), of jobs.
  static base::Limits limits();
  static schemas::JobSpec job_spec(std::uint32_t machines, std::uint32_t devices,
                                   std::uint32_t shards);
  static std::string job_text(const schemas::JobSpec& spec);

  void add_agent(const std::string& name, std::uint32_t slots,
                 const std::vector<schemas::GpuOffer>& gpus = {});
  /// From now on these of its GPUs are lost, and no others.
  void lose_gpus(const std::string& name, const std::vector<schemas::LostGpu>& lost);
  void kill_agent(const std::string& name);
  /// SIGTERM to an agent.
  void stop_agent(const std::string& name);
  void kill_coordinator();
  /// A new one, which knows of nothing; agents find it.
  void start_coordinator();
  /// The fate of processes whose machine and role match; by "MACHINE/host" or "MACHINE/server".
  /// Processes of this agent report another numeric class.
  void set_class(const std::string& agent, const std::string& isa) { classes_[agent] = isa; }
  void set_fate(const std::string& process, Fate fate) { fates_[process] = fate; }
  /// A person's message; answers collect in answers().
  PeerId say(schemas::Message message);
  /// The same over a link of its own, `times` in a row.
  PeerId say_often(const schemas::Message& message, int times);
  const std::vector<schemas::Message>& answers(PeerId person) { return answers_[person]; }
  void at(std::uint64_t time_ms, std::function<void()> action);
  void run_until(std::uint64_t time_ms);

  CoordinatorState& coordinator() { return *coordinator_; }
  /// From now on each machine, and the coordinator, has a folder of checkpoints of its own.
  void separate_folders() { separate_ = true; }
  /// Processes that run on machines that live.
  std::size_t processes() const;
  const std::map<std::string, base::Status>& exited_agents() const { return exited_; }
  std::uint64_t now_ms() const { return now_ms_; }
  std::uint64_t random(std::uint64_t below);
  /// Everything that happened, as one number.
  std::uint64_t trace() const { return trace_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<Audit>& audits() const { return audits_; }
  /// Processes that were given slots which they cannot have: one that others have, or a GPU that is
  /// too small, or of another model than the job's others.
  const std::vector<std::string>& faults() const { return faults_; }
  /// Processes that were given GPUs.
  std::size_t launches_on_gpus() const { return launches_on_gpus_; }

 private:
  struct Process {
    Fate fate = Fate::well;
    bool hung = false;
    std::vector<std::uint32_t> gpus = {};  // indices
    std::size_t slots = 0;                 // of CPUs
  };
  struct Agent {
    std::unique_ptr<AgentState> state;
    std::uint32_t slots = 0;
    std::vector<schemas::GpuOffer> gpus;
    PeerId peer = 0;  // of the link that counts
    std::uint64_t join = 0;
    bool alive = true;
    bool linked = false;
    std::map<ProcessKey, Process> processes;
    std::uint64_t to_agent_ms = 0;  // links deliver in order
    std::uint64_t from_agent_ms = 0;
  };
  struct Entry {
    std::uint64_t time_ms = 0;
    std::uint64_t number = 0;
    std::function<void()> action;
    bool operator<(const Entry& other) const {
      return std::pair(time_ms, number) > std::pair(other.time_ms, other.number);
    }
  };

  void after(std::uint64_t delay_ms, std::function<void()> action) {
    at(now_ms_ + delay_ms, std::move(action));
  }
  void coordinate(const CoordinatorEvent& event);
  void handle(const std::string& agent, const AgentEvent& event);
  void cut(const std::string& agent);
  void dial(const std::string& agent, const JoinCoordinator& join, std::uint64_t until_ms);

  void perform(const Send<PeerId>& send);
  void perform(const DropPeer& drop);
  void perform(const TakeDenyList&) {}
  void perform(const ProbeFolder& probe);
  void perform(const HoldFolder& hold);
  void perform(const LetGoOfFolder&) {}
  void perform(const CollectCheckpoint& collect);
  void perform(const EndCollecting&) {}
  void perform(const ServePiece&) {}
  void perform(const CheckCopy&) {}
  void perform(const DropFiles&) {}
  void perform(const Audit& change) { audits_.push_back(change); }
  void perform(const FindStart& find);
  void perform(const Note& line);
  void perform(const JobAdmitted&) {}
  void perform(const JobFinished&) {}

  void perform(const std::string& agent, const Send<ToCoordinator>& send);
  void perform(const std::string& agent, const Send<ToChild>& send);
  void perform(const std::string& agent, const JoinCoordinator& join);
  void perform(const std::string& agent, const LeaveCoordinator& leave);
  void perform(const std::string& agent, const StartChild& start);
  void perform(const std::string& agent, const StopChild& stop);
  void perform(const std::string& agent, const ProbeFolder& probe);
  void perform(const std::string&, const ServePiece&) {}
  void perform(const std::string& agent, const PlaceFiles& place);
  void perform(const std::string&, const DropFiles&) {}
  void perform(const std::string&, const UseDenyList&) {}
  void perform(const std::string& agent, const End& end);
  void perform(const std::string&, const Note&) {}

  void child_says(const std::string& agent, const ProcessKey& key, schemas::ActorId from,
                  schemas::Message message, std::uint64_t delay_ms);
  void child_ends(const std::string& agent, const ProcessKey& key, const std::string& how,
                  std::uint64_t delay_ms);
  bool cut(const std::string& agent, const Send<ToChild>& send);
  void check_slots(const std::string& agent, const schemas::LaunchProcess& launch);
  void check_gpu(const std::string& agent, const schemas::LaunchProcess& launch,
                 std::uint32_t index);
  void train(const std::string& agent, const ProcessKey& key, schemas::ActorId actor);
  Process* process(const std::string& agent, const ProcessKey& key);
  void note(const std::string& text);
  schemas::FolderProbeResult look(const schemas::FolderProbe& probe) const;
  void tick();

  bool separate_ = false;
  std::uint64_t expected_;  // agents
  std::uint64_t state_;
  std::uint64_t trace_ = 0;
  std::uint64_t now_ms_ = 0;
  std::uint64_t next_entry_ = 0;
  PeerId next_peer_ = 1;
  std::unique_ptr<CoordinatorState> coordinator_;
  std::map<std::string, Agent> agents_;
  std::map<std::string, Fate> fates_;
  std::map<std::string, std::string> classes_;  // instruction set by agent
  std::map<std::string, base::Status> exited_;
  std::map<PeerId, std::vector<schemas::Message>> answers_;
  std::map<std::string, std::uint64_t> saved_;  // step of the newest checkpoint by job
  std::map<std::pair<std::string, std::uint64_t>, std::string> models_;  // GPUs' by run
  std::priority_queue<Entry> queue_;
  std::vector<std::string> notes_;
  std::vector<Audit> audits_;
  std::vector<std::string> faults_;
  std::size_t launches_on_gpus_ = 0;
};

}  // namespace troupe::control::testing
