// SPDX-License-Identifier: Apache-2.0
// CoordinatorState: the cluster's agents and jobs. Agents join with their slots, of CPUs and GPUs;
// a job waits until slots are free, then runs (run_state.h); people submit, list, stop and wait.
// Final states never change. Pure: no clock, thread or socket; one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "control/access.h"
#include "control/closed_cluster.h"
#include "control/control_events.h"
#include "control/gpu_slots.h"
#include "control/run_state.h"
#include "schemas/message_families.h"

namespace troupe::control {

/// What a coordinator is given.
struct CoordinatorOptions {
  std::string version;  ///< agents of another one are refused
  base::Limits limits;
  std::string pages_host;  ///< of its own pages
  /// So many agents join and no more: the cluster is closed (closed_cluster.h), and limits.
  /// join_wait_ms is how long a job without room is patient; 0: any number.
  std::uint64_t agents = 0;
};

/// Slots of one kind, of all agents.
struct SlotFigures {
  std::uint64_t all = 0;
  std::uint64_t used = 0;
  std::uint64_t withheld = 0;  ///< not used, and no job can have them at present
};

/// What stands in the coordinator's metrics.
struct CoordinatorFigures {
  std::map<schemas::JobPhase, std::uint64_t> jobs;
  std::uint64_t agents = 0;
  SlotFigures cpus;
  SlotFigures gpus;
};

/// A job in the coordinator's metrics.
struct ScrapedJob {
  schemas::JobInfo info;
  std::uint64_t checkpointed_ms = 0;         ///< when its newest checkpoint came; 0: never
  std::vector<std::uint32_t> missing_ranks;  ///< waited for long
  std::optional<double> goodput;             ///< over all runs known (goodput.h)
  std::uint64_t resumes = 0;                 ///< runs after the first one, but for moves
};

/// See the top of the file.
class CoordinatorState {
 public:
  using Event = CoordinatorEvent;
  using Effect = CoordinatorEffect;

  explicit CoordinatorState(CoordinatorOptions options);

  /// Returns what is to be done, in order.
  std::vector<Effect> handle(const Event& event);

  /// When it was told the time last.
  std::uint64_t now_ms() const { return now_ms_; }
  /// Every job in order of submission.
  std::vector<schemas::JobInfo> jobs() const;
  /// What JobQuery without an id is answered: as many of the newest jobs as one message holds, with
  /// short notes; the text says how many older ones are left off. With `cluster` machines and
  /// ranks.
  schemas::JobList list(bool cluster) const;
  /// Every agent, in order of joining, and every rank of jobs that have machines; of very many the
  /// first (codec.h).
  std::vector<schemas::MachineInfo> machines() const;
  std::vector<schemas::RankInfo> ranks() const;
  /// Jobs that metrics show: until finished_job_ms after their end.
  std::vector<ScrapedJob> scraped_jobs() const;
  /// Every process that can be scraped, agents included.
  std::vector<ScrapeTarget> targets() const;
  CoordinatorFigures counts() const;

 private:
  /// Who is linked, agents and people.
  struct Peer {
    std::optional<std::string> host;
    Caller caller;
    std::uint64_t heard_ms = 0;
    bool dropped = false;
  };
  /// A host process whose run is over, and which may still be there.
  struct Left {
    std::string name;                 // "process 77 of job x"
    std::uint32_t slots = 0;          // of CPUs, which it may use
    std::vector<std::uint32_t> gpus;  // the same, by index
  };
  struct Agent {
    schemas::AgentHello hello;  // with its newest word on what it withholds
    std::uint64_t number = 0;   // in order of joining
    GpuSlots gpus;
    std::uint32_t used = 0;           // of hello.slots
    std::map<ProcessKey, Left> left;  // each has one slot or more that nobody else gets
    bool cut = false;                 // its link is, and may heal
    bool cut_noted = false;           // and that was told
    std::uint64_t cut_noted_ms = 0;   // when a cut was told last; 0: never
    std::string cut_reason;
    bool leaving = false;                      // asked to end, or dropped: nothing new for it
    std::string said;                          // why it withholds its slots, if it does
    std::uint64_t offered_ms = 0;              // when its newest offer was looked at; 0: never
    std::optional<schemas::AgentOffer> offer;  // one that came soon after that, and waits
    /// Whether it gets something new.
    bool offers() const { return !cut && !leaving && hello.withheld.empty(); }
    /// Of hello.slots: not used, and nobody gets them.
    std::uint32_t kept() const;
  };
  using Agents = std::map<PeerId, Agent>;
  /// A job's runs before the one at hand, as far as this coordinator knows them.
  struct EarlierRuns {
    HeldTime held;
    std::uint64_t runs = 0;
    std::uint64_t resumes = 0;
    std::uint64_t checkpointed_ms = 0;
  };
  struct Job {
    std::uint64_t number = 0;  // in order of submission
    std::string text;
    std::deque<std::string> requests;  // the last few that submitted it
    schemas::JobSpec spec;
    std::string folder;            // checkpoint.dir as others may be compared with it
    std::string owner;             // who submitted it; empty: somebody
    schemas::JobInfo info;         // while there is no run
    std::uint64_t generation = 1;  // of its run at least: above those of earlier submissions
    std::unique_ptr<RunState> run;
    EarlierRuns earlier;
    std::string model;        // of its run's GPUs, or its last one's; empty: several, or none
    std::string saved_model;  // of those of its newest known checkpoint: others may refuse it
    bool moved = false;       // the run at hand goes on elsewhere, as the coordinator wanted
    std::uint64_t submitted_ms = 0;
    std::uint64_t queued_ms = 0;                  // since when it has waited for machines
    std::optional<std::uint64_t> short_since_ms;  // that all agents together lack room for it
    std::optional<std::uint64_t> ended_ms;        // its phase is final since then
    /// Who has stopped it, for the final phase: is a checkpoint all that it has asked for?
    std::map<PeerId, bool> waiting;
  };
  using Jobs = std::map<std::uint64_t, Job>;  // by number

  void on(const Tick& tick);
  void on(const PeerLinked& linked);
  void on(const PeerSaid& said);
  void on(const PeerCut& cut);
  void on(const PeerBack& back);
  void on(const PeerLost& lost);
  void on(const StartFound& found);
  void on(const FolderProbed& probed);
  void on(const FolderHeld& held);
  void on(const WorkGoesOn& work);
  void on(const CheckpointCollected& collected);
  /// For the run that wanted to know, if it still does.
  template <typename Told>
  void tell_run(const std::string& id, std::uint64_t generation, const Told& told);
  void on(const TokensRead& read);
  void on(const DenyListRead& read);
  void on(const CertificateJudged& judged);

  void on_message(PeerId peer, const schemas::AgentHello& hello);
  void on_message(PeerId peer, const schemas::JobSubmit& submit);
  void on_message(PeerId peer, const schemas::JobQuery& query);
  void on_message(PeerId peer, const schemas::JobStop& stop);
  void on_message(PeerId peer, const schemas::JobCheckpoint& wanted);
  void on_message(PeerId peer, const schemas::AgentLeaving& leaving);
  void on_message(PeerId peer, const schemas::AgentOffer& offer);
  void on_message(PeerId peer, const schemas::PersonHello& hello);
  void on_message(PeerId peer, const schemas::DenyList& list);
  /// What agents tell about runs.
  template <schemas::OneOf<schemas::FolderProbeResult, schemas::ProcessMessage,
                           schemas::ProcessExited, schemas::PieceQuery, schemas::CheckpointPlaced>
                Report>
  void on_message(PeerId peer, const Report& report) {
    hand_to_run(peer, report.job, report.generation, report);
  }
  /// What only the coordinator says, to agents and to people.
  template <schemas::OneOf<schemas::AgentWelcome, schemas::LaunchProcess, schemas::StopProcesses,
                           schemas::FolderProbe, schemas::PlaceCheckpoint, schemas::DropCheckpoint,
                           schemas::JobSubmitted, schemas::JobList, schemas::JobCheckpointAnswer>
                Own>
  void on_message(PeerId peer, const Own&) {
    refuse(peer);
  }
  /// The shell takes pieces that were asked for; no answer in time is the asker's affair.
  void on_message(PeerId peer, const schemas::FilePiece&) {
    if (!agents_.contains(peer)) refuse(peer);
  }
  /// Actors of a job have no links here: their words come inside a ProcessMessage.
  template <typename Other>
  requires schemas::DataMessage<Other> || schemas::JobMessage<Other> || schemas::LinkMessage<Other>
  void on_message(PeerId peer, const Other&) { refuse(peer); }

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void hand_to_run(PeerId peer, const std::string& job, std::uint64_t generation,
                   const AgentReport& report);
  void hand_to_run(Job& job, const RunState::Event& event);
  template <typename What>
  void perform(What what) {
    emit(std::move(what));
  }
  void perform(const GiveUpAgent& lost) { give_up(lost.peer, lost.reason); }
  /// With the number of its machine there.
  std::vector<std::pair<Job*, std::uint32_t>> runs_on(PeerId agent);
  void give_up(PeerId agent, const std::string& reason);
  void lose_agent(PeerId agent, const std::string& reason);
  void refuse(PeerId peer);
  void drop(PeerId peer, base::Status reason);
  void drop_idle_people();
  bool awaits(PeerId peer) const;
  Agents::const_iterator agent_named(const std::string& name) const;
  base::Status check_agent(PeerId peer, const schemas::AgentHello& hello) const;
  base::Status check_uuids(const schemas::AgentHello& hello) const;
  base::Status check_holder(PeerId peer, const schemas::AgentHello& hello) const;
  Caller caller_of(PeerId peer) const;
  /// Whether the peer may; if not, it is told and dropped.
  bool may(PeerId peer, trust::Right right, const std::string& what);
  /// The same for stopping or saving a job (null: none): one's own needs less.
  bool may_end(PeerId peer, const Job* job, const std::string& what);
  void tell_unknown(PeerId peer, const std::string& id);
  Audit change_by(PeerId peer, std::string what) const;
  void note_change(PeerId peer, std::string what);
  void note_cut(Agent& agent);
  void look_at_offer(PeerId peer, Agent& agent);
  void note_withheld(PeerId peer, const std::string& said);
  void note_lost(PeerId peer);
  void note_kept(Agent& agent, std::uint32_t slots);
  base::Status note_stop(PeerId peer, Job& job, bool checkpoint);
  void note_left_out(const std::vector<Access::LeftOut>& all);
  base::Result<schemas::JobSubmitted> submit(PeerId peer, const schemas::JobSubmit& submit);
  base::Status check_replaced(PeerId peer, const Job& job, bool other) const;
  void note_request(Job& job, const std::string& request);
  base::Status make_room();
  std::string choose_id(const schemas::JobSpec& spec, const std::string& text) const;
  void settle();
  void settle(Job& job);
  void queue_again(Job& job);
  void carry_over(const Job& from, Job& to) const;
  void forget(const Job& job);
  struct Offers;
  Offers all_offers() const;
  void admit_pending();
  void admit_new(Job& job);
  void admit(Job& job, Offers& offers);
  void defer(Job& job, const std::string& why);
  void wait_for_room(Job& job, const ClosedCluster& closed, const Capacity& capacity,
                     const std::string& model, const std::string& shortage);
  void look_at_patience();
  const Job* holder_of(const std::string& folder) const;
  void begin_run(Job& job, RunPlan plan);
  void use_slots(const RunPlan& plan, bool give_back);
  void give_back_slots(const RunState& run);
  void leave_behind(const RunPlan& plan, std::uint32_t machine, std::uint64_t pid);
  void note_ended(PeerId peer, const schemas::ProcessExited& exited);
  std::uint64_t behind_left(const std::string& job, std::uint64_t generation) const;
  Job* find(const std::string& id);
  const schemas::JobInfo& shown(const Job& job) const {
    return job.run ? job.run->info() : job.info;
  }
  schemas::JobInfo info_of(const Job& job) const;
  EarlierRuns all_runs(const Job& job) const;
  static std::string saved_model(const Job& job);

  CoordinatorOptions options_;
  Access access_;
  std::string deny_list_;  // PEM; empty: nothing is known to be revoked
  std::uint64_t now_ms_ = 0;
  std::uint64_t next_job_ = 1;
  std::uint64_t next_agent_ = 0;
  std::map<PeerId, Peer> peers_;
  Agents agents_;
  Jobs jobs_;
  std::map<std::string, std::uint64_t> by_id_;
  std::map<std::string, std::uint64_t> by_request_;
  std::set<std::uint64_t> pending_;  // jobs in the queue
  std::set<std::uint64_t> running_;  // jobs with a run that is not over
  std::set<std::uint64_t> changed_;  // jobs that settle() has to look at
  bool slots_changed_ = false;       // agents came or went, or slots were given or freed
  bool links_changed_ = false;       // were cut or whole again: looked at with the next tick, as
                                     // each look takes long where many jobs wait
  std::vector<Effect> effects_;      // of the event that is being handled
};

}  // namespace troupe::control
