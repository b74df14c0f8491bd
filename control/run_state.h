// SPDX-License-Identifier: Apache-2.0
// RunState: one job on its machines, from admission to its last process's end: do all machines see
// one checkpoint folder, where does it begin, have all the files to go on from, are all processes
// up and of one numeric class; then JobState trains it; then the processes end. A run that has to
// leave a machine ends with a checkpoint, and the job goes on as another run (run_cut.cc). Every
// stage has a deadline and every failure names the process and its machine. Pure: no clock, thread
// or socket; the coordinator owns it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/checkpoint_folder.h"
#include "control/control_events.h"
#include "control/goodput.h"
#include "control/job_state.h"
#include "control/rank_placement.h"

namespace troupe::control {

/// What a run needs to begin.
struct RunPlan {
  std::string job;       ///< id
  std::string job_text;  ///< encoded spec
  schemas::JobSpec spec;
  /// Machines and who is where; the run adds the rest. The generation is above those of the earlier
  /// runs of this id that the coordinator knows of, whose processes may still be there.
  schemas::Placement placement;
  std::vector<PeerId> peers;                      ///< agent by machine index
  std::vector<std::optional<std::string>> hosts;  ///< where its ports are, by machine index
  std::string pages_host;                         ///< of the coordinator's own pages
  std::vector<GpuPlace> slot_of_rank = {};        ///< as RankPlacement's
};

/// permission_denied unless a page's address is of `host` (base::check_host), or of the
/// coordinator's own pages: who may be on its machine alone has pages where they are.
base::Status check_page(const std::string& address, const std::optional<std::string>& host,
                        const std::string& pages_host);

/// A process that can be scraped.
struct ScrapeTarget {
  std::string address;  ///< HOST:PORT
  std::string role;     ///< "host", "parameter_server", "agent", "coordinator"
  std::string node;     ///< machine
  std::string ranks;    ///< "0,1"; empty for servers
  std::string job;      ///< id; empty for agents and the coordinator
  friend bool operator==(const ScrapeTarget&, const ScrapeTarget&) = default;
};

/// See the top of the file.
class RunState {
 public:
  using Event = RunEvent;
  using Effect = RunEffect;

  explicit RunState(RunPlan plan);

  /// Returns what is to be done, in order; nothing once it is over.
  std::vector<Effect> handle(const Event& event);

  /// Nothing of the job is left; its phase is final.
  bool over() const { return stage_ == Stage::over; }
  /// Once it is over: the job is to go on elsewhere, from the newest checkpoint. Its phase is
  /// `stopped`, and only the coordinator sees that.
  bool moves() const { return over() && moving_ && !stopped_; }
  /// The peer waits for a checkpoint.
  bool owes(PeerId peer) const;
  /// Why the checkpoint with which a person wanted to stop the job was not written; empty: it was,
  /// or nobody wanted one.
  const std::string& uncut() const { return uncut_; }
  /// Once it is over: host processes that nobody has seen end, by machine, with their process id
  /// (0: not known). They may still use what their ranks had.
  std::map<std::uint32_t, std::uint64_t> left_behind() const;
  const schemas::JobInfo& info() const { return info_; }
  const RunPlan& plan() const { return plan_; }
  /// See JobState.
  std::vector<std::uint32_t> missing_ranks() const {
    return job_ ? job_->missing_ranks() : std::vector<std::uint32_t>();
  }
  /// What is known of every rank, by rank.
  std::vector<schemas::RankInfo> ranks() const;
  /// When this run's newest checkpoint became known, on the clock of Tick; 0: none yet.
  std::uint64_t checkpointed_ms() const { return checkpointed_ms_; }
  /// A checkpoint is known that its ranks wrote, or from which they have gone on.
  bool saved() const { return checkpointed_ms_ != 0 || (resumed_ && stepped_samples_ > 0); }
  /// The time of this run's machines so far.
  HeldTime held() const { return goodput_.time(now_ms_); }
  /// It goes on from a checkpoint that was there before it.
  bool resumed() const { return resumed_; }
  /// Processes that are up.
  std::vector<ScrapeTarget> targets() const;

 private:
  enum class Stage : std::uint8_t {
    probing,    // what do machines and coordinator see of the checkpoint folder?
    finding,    // where the job begins is looked up beside the coordinator
    placing,    // machines that have a folder of their own get the files to begin with
    launching,  // agents start the processes
    running,    // JobState has the word
    ending,     // processes end, by themselves or because they are told to
    over
  };
  struct Process {
    std::uint32_t machine = 0;
    std::vector<std::uint32_t> ranks;  // of a host process
    std::optional<schemas::ProcessReady> ready;
    bool complained = false;  // has sent ActorFailed: its exit is no news
    bool gone = true;         // nothing runs before launch()
  };
  struct Suspicion {
    base::Status status;
    std::uint64_t until_ms = 0;
    std::set<std::uint32_t> machines;  // of the peers that were lost
  };

  void on(const Begin& begin);
  void on(const Tick& tick);
  void on(const AgentSaid& said);
  void on(const AgentCut& cut);
  void on(const AgentBack& back);
  void on(const AgentLost& lost);
  void on(const StartFound& found);
  void on(const FolderProbed& probed);
  void on(const FolderHeld& held);
  void on(const WorkGoesOn& work);
  void on(const CheckpointCollected& collected);
  void on(const StopRequested& stop);
  void on(const CheckpointRequested& request);
  void on(const MachineLeaving& leaving);

  void on_report(std::uint32_t machine, const schemas::FolderProbeResult& result);
  void on_report(std::uint32_t machine, const schemas::ProcessMessage& message);
  void on_report(std::uint32_t machine, const schemas::ProcessExited& exited);
  void on_report(std::uint32_t machine, const schemas::PieceQuery& query);
  void on_report(std::uint32_t machine, const schemas::CheckpointPlaced& placed);

  void on_message(const schemas::ActorId& from, Process& process,
                  const schemas::ProcessReady& ready);
  void on_message(const schemas::ActorId& from, Process& process,
                  const schemas::ActorFailed& failed);
  void on_message(const schemas::ActorId& from, Process& process,
                  const schemas::CheckpointReport& report);
  /// All else that an actor of a job says is the job's affair.
  template <schemas::OneOf<schemas::DatasetReport, schemas::TrainingStart, schemas::ProgressReport,
                           schemas::EvaluationReport, schemas::ServerReport, schemas::CutQuery,
                           schemas::CutReady, schemas::ExtraCut, schemas::ExtraCutTaken,
                           schemas::ActorDone, schemas::JobEnd, schemas::Placement>
                Said>
  void on_message(const schemas::ActorId& from, Process&, const Said& said) {
    if (stage_ == Stage::running) hand_to_job(ActorSaid{from, said});
  }
  /// Actors have nothing of these to say to the coordinator.
  template <typename Other>
  requires schemas::DataMessage<Other> || schemas::AgentMessage<Other> ||
      schemas::PersonMessage<Other> || schemas::LinkMessage<Other>
  void on_message(const schemas::ActorId&, Process&, const Other&) {}

  void hand_to_job(const JobState::Event& event);
  void perform(const Send<schemas::ActorId>& send);
  void perform(const JobStepped& stepped);
  void perform(const JobScored& scored);
  void perform(const JobCheckpointed& checkpointed);
  void perform(const CutSettled& settled);
  void perform(const Note& note);
  void perform(const End& end);

  bool trains() const { return stage_ == Stage::running && job_->trains(); }
  void want_last_cut();
  void last_cut_settled(const CutSettled& settled);
  void stop();
  void move();
  base::Status lost_machine(std::uint32_t machine, const std::string& reason) const;
  void judge_folder(const base::Status& fault);
  void watch_copies();
  void find_start();
  void launch();
  void begin_training();
  base::Status check_classes() const;
  void fail(const base::Status& status);
  void judge_suspicion();
  void end();
  void end_processes();
  void finish_if_gone();
  void finish();
  void watch_ending();
  void perform_folder();

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void tell_detail(const std::string& text);
  void send(std::uint32_t machine, schemas::Message message);
  void send_stop(std::uint64_t grace_ms);
  Process* process_of(const schemas::ActorId& actor);
  std::string name_of(const schemas::ActorId& actor, const Process& process) const;
  std::string waited_for() const;
  std::string way_on() const;

  RunPlan plan_;
  schemas::JobInfo info_;
  Stage stage_ = Stage::probing;
  std::uint64_t now_ms_ = 0;
  std::uint64_t begun_ms_ = 0;
  std::uint64_t deadline_ms_ = 0;             // of the stage; running has JobState's
  std::vector<bool> lost_;                    // by machine
  std::map<std::uint32_t, std::string> cut_;  // machines whose agent's link is, and why
  std::optional<std::uint64_t> copying_ms_;  // when a piece of the copy under way came, or it began
  std::optional<CheckpointFolder> folder_;   // none: the job writes no checkpoints
  std::map<schemas::ActorId, Process> processes_;
  base::Secret secret_{};  // of the processes
  std::optional<JobState> job_;
  std::optional<Suspicion> suspicion_;
  base::Status unsent_;   // why one of the job's messages could not be sent; looked at soon
  base::Status outcome_;  // first cause
  bool begun_ = false;
  bool stopped_ = false;
  bool resumed_ = false;
  // Cuts out of turn: run_cut.cc.
  CutWish wishes_ = 0;                     // so far
  std::map<CutWish, PeerId> people_;       // who wait for a checkpoint
  std::optional<CutWish> last_cut_;        // with which the run is to end
  bool stopping_ = false;                  // a person has stopped it, with a checkpoint
  std::optional<MachineLeaving> leaving_;  // the first machine that does
  bool moving_ = false;
  std::string uncut_;
  Goodput goodput_;
  std::uint64_t checkpointed_ms_ = 0;
  std::uint64_t checkpoint_step_ = 0;  // of info_.checkpoint
  std::uint64_t stepped_ms_ = 0;       // of the last progress
  std::uint64_t stepped_samples_ = 0;  // of this run, by then
  std::vector<Effect> effects_;        // of the event that is being handled
};

}  // namespace troupe::control
