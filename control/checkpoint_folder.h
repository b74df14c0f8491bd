// SPDX-License-Identifier: Apache-2.0
// CheckpointFolder: checkpoint.dir of a run, on its machines and beside the coordinator. First it
// is found out whether all of them see one folder there. Where they do not, each machine has a
// folder of its own, and the coordinator's is the one that counts: it collects every checkpoint
// from the machines that wrote it before anybody is told that there is one, and before processes
// start their machines get the files that they go on from. Pure: no clock, thread or file; RunState
// owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/control_events.h"
#include "control/job_state.h"

namespace troupe::control {

/// Whose folder it is.
struct FolderPlan {
  std::string job;               ///< id
  std::uint64_t generation = 1;  ///< of the run
  std::string folder;            ///< not empty
  std::uint32_t keep = 0;        ///< as of CheckpointSpec
  std::vector<std::string> machines;
  std::vector<PeerId> peers;                    ///< agent by machine
  std::vector<std::uint32_t> machine_of_shard;  ///< those have files to write and to read
};

/// See the top of the file.
class CheckpointFolder {
 public:
  /// Send: to the agent of a machine.
  using Effect = std::variant<Send<std::uint32_t>, ProbeFolder, CollectCheckpoint, EndCollecting,
                              ServePiece, CheckCopy, Note>;

  explicit CheckpointFolder(FolderPlan plan);

  /// Asks machines and coordinator what they see.
  void probe();
  /// What one of them sees. Error: the job cannot have its checkpoints there; it names the machine.
  base::Status take(std::uint32_t machine, const schemas::FolderProbeResult& result);
  base::Status take_own(const schemas::FolderProbeResult& result);
  /// All have answered; copied() holds from now on.
  bool known() const { return stage_ == Stage::known; }
  /// Machines do not share the folder.
  bool copied() const { return copied_; }

  /// The run begins where `found` says, as generation `generation`. With copies: sends its files.
  void begin(const StartFound& found, std::uint64_t generation);
  /// Every machine has the files that it reads.
  bool placed() const { return waiting_.empty() && placing_.empty(); }
  /// Error: a machine cannot have the files that it needs.
  base::Status take(std::uint32_t machine, const schemas::CheckpointPlaced& placed);
  /// A machine asks for a piece of the files that it is sent; nothing else is given out.
  void take(std::uint32_t machine, const schemas::PieceQuery& query);

  /// A server says that a checkpoint is complete in its folder. The report to go by, or nullopt:
  /// it is being collected first.
  std::optional<ActorSaid> take(ActorSaid said);
  /// What became of a CollectCheckpoint: the report to go by. nullopt: it was not asked for.
  std::optional<ActorSaid> take(const CheckpointCollected& collected);

  /// The run has failed or is over: what is under way for it ends.
  void end();
  /// Whom a deadline would be blamed on.
  std::vector<std::string> waited_for() const;
  std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

 private:
  enum class Stage : std::uint8_t {
    idle,
    writing,  // the first machine writes a file into the folder
    reading,  // the others and the coordinator read it
    trying,   // not shared: each machine with files to write writes one into its own
    known
  };

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  schemas::FolderProbe probe_of(const std::string& nonce, bool write) const;
  void send_probe(std::uint32_t machine, bool write);
  void remove_probes();
  void heard(std::uint32_t machine);
  void go_on();
  void place_more();
  void collect_next();
  /// "machine 'b'", or the coordinator.
  std::string name_of(std::uint32_t machine) const;
  std::uint32_t own() const { return static_cast<std::uint32_t>(plan_.machines.size()); }
  void drop(std::uint64_t step, bool older);

  FolderPlan plan_;
  Stage stage_ = Stage::idle;
  bool copied_ = false;
  std::set<std::uint32_t> servers_;  // machines with shards
  std::set<std::uint32_t> asked_;    // who still has to answer; own() is the coordinator
  std::set<std::uint32_t> probes_;   // machines where a file of the probe lies
  // Placing.
  std::string checkpoint_;                                    // path, as people are told it
  std::vector<std::string> files_;                            // of it, by position
  std::map<std::uint32_t, std::set<std::uint32_t>> waiting_;  // files by machine, not yet sent for
  std::map<std::uint32_t, std::set<std::uint32_t>> placing_;  // and those under way
  // Collecting: one at a time, in order.
  std::uint64_t start_step_ = 0;
  std::deque<ActorSaid> reports_;  // the first one is being collected
  std::set<std::uint64_t> steps_;  // of all reports so far
  std::vector<Effect> effects_;
};

}  // namespace troupe::control
