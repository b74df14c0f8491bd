// SPDX-License-Identifier: Apache-2.0
// CheckpointFolder: checkpoint.dir of a run, on its machines and beside the coordinator. First it
// is found out which machines see the coordinator's folder there. Where one does not, it has a
// folder of its own, and the coordinator's is the one that counts, and this job's alone while it
// runs: whatever machines hold of the job that is newer is collected before the run begins, every
// checkpoint is collected from the machines that wrote it before anybody is told that there is one,
// and before processes start their machines get the files that they go on from. Only machines with
// parameter servers have to do with it. Pure: no clock, thread or file; RunState owns it.
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
  schemas::JobSpec spec = {};                   ///< what machines hold has to be of this job
};

/// See the top of the file.
class CheckpointFolder {
 public:
  /// Send: to the agent of a machine.
  using Effect =
      std::variant<Send<std::uint32_t>, ProbeFolder, HoldFolder, LetGoOfFolder, CollectCheckpoint,
                   EndCollecting, ServePiece, CheckCopy, DropFiles, Note>;

  explicit CheckpointFolder(FolderPlan plan);

  /// Has the coordinator write a file there, which machines are then asked for.
  void probe();
  /// What a machine, or the coordinator, sees. Error: the job cannot have its checkpoints there; it
  /// names the machine.
  base::Status take(std::uint32_t machine, const schemas::FolderProbeResult& result);
  base::Status take(const FolderProbed& probed);
  /// Whether the coordinator's folder is this job's alone, and what lies there.
  base::Status take(const FolderHeld& held);
  /// All have answered, and what machines hold is collected; copied() holds from now on.
  bool known() const { return stage_ == Stage::known; }
  /// Checkpoints are on their way to the coordinator, which may take long.
  bool collecting() const { return gathering() || !reports_.empty(); }
  /// Those that machines hold from before the run.
  bool gathering() const { return stage_ == Stage::gathering; }
  /// How long to wait for what comes next.
  std::uint64_t patience_ms() const;
  /// At least one machine has a folder of its own.
  bool copied() const { return !own_.empty(); }
  /// Above this are no manifests' generations.
  std::uint64_t highest() const { return highest_; }

  /// The checkpoint that the run was to begin with is damaged and set aside: what machines hold of
  /// it, or of one that is newer than what is left, is collected. known() holds no more.
  void look_again();

  /// The run begins where `found` says, as generation `generation`. With copies: sends its files.
  void begin(const StartFound& found, std::uint64_t generation);
  /// Every machine has the files that it reads.
  bool placed() const { return waiting_.empty() && placing_.empty(); }
  /// Error: a machine cannot have the files that it needs.
  base::Status take(std::uint32_t machine, const schemas::CheckpointPlaced& placed);
  /// A machine asks for a piece. It gets those of the files that it is sent, and a refusal else.
  void take(std::uint32_t machine, const schemas::PieceQuery& query);

  /// A server says that a checkpoint is complete in its folder. The report to go by, or nullopt:
  /// it is being collected first.
  std::optional<ActorSaid> take(ActorSaid said);
  /// What became of a CollectCheckpoint: the report to go by. nullopt: there is none.
  std::optional<ActorSaid> take(const CheckpointCollected& collected);
  /// Likewise, while gathering(). Error: what could not be collected now may be whole.
  base::Status gathered(const CheckpointCollected& collected);

  /// The run has failed or is over: what is under way for it ends.
  void end();
  /// Its processes have ended, too: the coordinator's folder is free for others.
  void let_go();
  /// Whom a deadline would be blamed on.
  std::vector<std::string> waited_for() const;
  std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

 private:
  enum class Stage : std::uint8_t {
    idle,
    writing,    // the coordinator writes a file into its folder
    reading,    // machines with servers read it
    trying,     // those that do not see it write one into their own folder
    comparing,  // the coordinator looks for each of those in its folder
    holding,    // nobody else may write into the coordinator's folder
    gathering,  // what they hold and the coordinator does not is collected
    known
  };

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  schemas::FolderProbe probe_of(std::uint32_t machine, const std::string& nonce, bool write) const;
  void ask(std::uint32_t machine, bool write);
  void remove_probes();
  base::Status note_newest(std::uint32_t machine, const schemas::FolderProbeResult& result);
  void heard(std::uint32_t machine);
  void go_on();
  void compare_next();
  void tell_own();
  void hold();
  void gather();
  void gather_next();
  void place_more();
  void collect_next();
  CollectCheckpoint collect(std::uint64_t step, std::uint64_t generation) const;
  /// "machine 'b'", or the coordinator.
  std::string name_of(std::uint32_t machine) const;
  std::uint32_t own_place() const { return static_cast<std::uint32_t>(plan_.machines.size()); }
  void drop(const std::string& checkpoint, bool older);
  void drop_copy(const std::string& checkpoint);
  void drop_older(std::uint64_t step);

  /// A checkpoint's step and generation: newer ones are greater.
  using Name = std::pair<std::uint64_t, std::uint64_t>;

  FolderPlan plan_;
  Stage stage_ = Stage::idle;
  std::string nonce_;
  std::set<std::uint32_t> servers_;  // machines with shards
  std::set<std::uint32_t> own_;      // of them: those with a folder of their own
  std::set<std::uint32_t> asked_;    // who still has to answer; own_place() is the coordinator
  std::set<std::uint32_t> probes_;   // where a file of the probe lies
  std::set<std::uint32_t> unseen_;   // of own_: whose file the coordinator has not looked for
  std::uint64_t highest_ = 0;
  bool held_alone_ = false;  // the coordinator's folder; or it was asked for
  Name kept_ = {};           // the coordinator's newest whole one
  std::set<Name> held_;      // what machines hold, by their manifests' names
  std::set<Name> tried_;     // of them: what was collected for this run, or could not be
  std::set<Name> left_;      // of them: what is left to try; the newest is being collected
  std::string checkpoint_;   // that the run goes on from: path, as people are told it
  // Placing.
  std::vector<std::string> files_;                            // of it, by position
  std::map<std::uint32_t, std::set<std::uint32_t>> waiting_;  // files by machine, not yet sent for
  std::map<std::uint32_t, std::set<std::uint32_t>> placing_;  // and those under way
  // Collecting: one at a time, in order.
  std::uint64_t start_step_ = 0;
  std::uint64_t checkpoint_bytes_ = 0;  // as of StartFound
  std::deque<ActorSaid> reports_;       // the first one is being collected
  std::set<std::uint64_t> steps_;       // of all reports so far
  // On machines: what this run wrote, and what was placed for it; by step.
  std::map<std::uint64_t, std::string> lie_;
  std::vector<Effect> effects_;
};

/// The answer to a question for a piece that is not sent: nobody need wait for it.
schemas::FilePiece refusal_of(const schemas::PieceQuery& query);

}  // namespace troupe::control
