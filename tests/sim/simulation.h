// SPDX-License-Identifier: Apache-2.0
// Simulation: a whole company in one thread and virtual time, driven by one seed. It stands for the
// network, the engines, the disk, the agents that see a process die and the person who starts a
// failed job again. Everything happens in the order of (time, number of the entry).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "actors/device_server_state.h"
#include "actors/parameter_server_state.h"
#include "actors/server_figures.h"
#include "actors/worker_state.h"
#include "control/job_state.h"
#include "tests/sim/bug.h"
#include "tests/sim/checker.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_worker.h"

namespace troupe::sim {

/// What may go into any role; each takes its own.
using Event = std::variant<actors::Received, actors::EffectDone, actors::Tick, actors::LinkResumed,
                           actors::DatasetChecked, actors::PushWanted, actors::PullWanted,
                           actors::Report, actors::Finish>;

/// How a simulation ended.
struct Outcome {
  std::string fault;        ///< empty: everything held
  std::string failure;      ///< a role was killed: what the job said when it failed
  std::uint64_t trace = 0;  ///< hash of all events in order
  std::uint64_t events = 0;
  std::uint64_t virtual_ms = 0;
  std::uint64_t updates = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t cuts = 0;        ///< out of turn, of all checkpoints
  std::uint64_t repeated = 0;    ///< letters sent again
  std::uint64_t asked = 0;       ///< questions about letters
  std::uint64_t link_bytes = 0;  ///< payloads given to links
  std::uint64_t staleness_max[3] = {};
  std::uint64_t worker_bytes = 0;  ///< pushed by ranks and taken
  std::uint64_t owner_bytes = 0;   ///< pushed by device servers
  std::size_t blocks_peak = 0;     ///< slice buffers alive at once
  std::size_t blocks_bound = 0;    ///< what the roles may hold, with what was under way
  std::size_t blocks_end = 0;      ///< alive when the job has succeeded and nothing is under way
  std::size_t blocks_end_bound = 0;
};

/// One run of one job. Use once.
class Simulation {
 public:
  explicit Simulation(const SimJob& job, Bug bug = Bug::none);
  /// Lines about every envelope that arrives, for people who look into a seed.
  void listen(std::function<void(const std::string&)> listener) { listener_ = std::move(listener); }
  ~Simulation();
  Outcome run();

 private:
  struct Entry {
    std::uint64_t time_us = 0;
    std::uint64_t number = 0;
    std::shared_ptr<std::function<void()>> action;
    bool operator>(const Entry& other) const {
      return time_us != other.time_us ? time_us > other.time_us : number > other.number;
    }
  };
  /// A role with its state machine; workers also have a loop.
  struct Actor {
    std::function<void(Event)> handle;  // and performs what follows
    std::function<std::string()> waits_for;
    std::function<actors::MailCounters()> mail;
    std::shared_ptr<const actors::DeviceFigures> figures;  // of a device server
    std::unique_ptr<SimWorker> loop;
  };
  struct SavedSlice {
    std::vector<std::vector<std::byte>> buffers;  // weight, then slots
    std::uint64_t updates = 0;
  };
  using Checkpoint = std::map<schemas::SliceId, SavedSlice>;

  // simulation.cc: time and the life of a job.
  void at(std::uint64_t delay_us, std::function<void()> action);
  void launch(std::uint64_t generation, std::uint64_t step);
  template <typename State>
  Actor& hire(schemas::ActorId id);
  template <typename State>
  void handle(const schemas::ActorId& id, State& state, Event event,
              actors::DeviceFigures* figures);
  void hire_worker(std::uint32_t rank);
  void hire_all();
  void tick(std::uint64_t generation, const schemas::ActorId& id);
  void kill();
  void new_view();
  void want_cut(bool last);
  void drive(const std::vector<control::JobState::Effect>& effects);
  void perform(const control::Send<schemas::ActorId>& send);
  void perform(const control::CutSettled& settled);
  void perform(const control::End& end);
  /// People's display and the log: the simulation has none.
  template <schemas::OneOf<control::JobStepped, control::JobScored, control::JobCheckpointed,
                           control::Note>
                Shown>
  void perform(const Shown&) {}
  void job_ended(const base::Status& status);
  void succeed();
  void coordinator_tick(std::uint64_t generation);
  bool alive(std::uint64_t generation, const schemas::ActorId& id) const {
    return generation == generation_ && actors_.count(id) != 0;
  }
  std::string dump();
  void check_memory();
  void trace(std::initializer_list<std::uint64_t> numbers);

  // network.cc: envelopes on their way, and the coordinator.
  void event(const schemas::ActorId& to, Event event);
  void post(schemas::Envelope envelope);
  bool bend(schemas::Envelope& envelope);
  void travel(const schemas::Envelope& envelope);
  void land(const schemas::Envelope& envelope);
  std::uint64_t delay_of(const schemas::Envelope& envelope);
  SimLink& link_of(const schemas::Envelope& envelope);
  void cut_link();
  void answered(const schemas::Envelope& envelope);
  void repeat_by_time(const schemas::ActorId& from);
  void deliver(const schemas::Envelope& envelope);
  void coordinator(const schemas::Envelope& envelope);
  void announce(const schemas::ActorId& to, const schemas::Message& message);
  bool faulty() const { return now_us_ < job_.faults.faults_end_ms * 1000; }

  // effects.cc: what the engines, the disk and the loops do.
  void perform(const schemas::ActorId& from, actors::Send send);
  void perform(const schemas::ActorId& from, const actors::StartTraining& start);
  void perform(const schemas::ActorId& from, const actors::WeightsReady& ready);
  void perform(const schemas::ActorId& from, const actors::GradientTaken& taken);
  void perform(const schemas::ActorId& from, const actors::Add& sum);
  void perform(const schemas::ActorId& from, const actors::Copy& one);
  void perform(const schemas::ActorId& from, const actors::Examine& sum);
  void perform(const schemas::ActorId& from, const actors::Update& next);
  void perform(const schemas::ActorId& from, const actors::InitSlice& first);
  void perform(const schemas::ActorId& from, const actors::WriteShard& write);
  void perform(const schemas::ActorId& from, const actors::WriteManifest& write);
  void perform(const schemas::ActorId& from, const actors::RemoveCheckpoint& remove);
  /// The coordinator has been told of a failure; logs and figures are not of this world.
  template <schemas::OneOf<actors::Fail, actors::End, actors::Note, actors::Missing, actors::Judged>
                Effect>
  void perform(const schemas::ActorId&, const Effect&) {}
  void finish_later(const schemas::ActorId& from, actors::EffectId id,
                    std::function<actors::EffectResult()> compute);
  base::Buffer add(const actors::Add& effect);
  base::Buffer copy(const actors::Copy& effect);
  store::Examined examine(const actors::Examine& effect);
  store::SliceValues update(const actors::Update& effect);
  /// Sets the weights as they travel, where that is in 16 bits.
  void round(const schemas::KeyInfo& key, store::SliceValues& values);
  store::SliceState first_values(const actors::InitSlice& effect);

  SimJob job_;
  Bug bug_;
  std::function<void(const std::string&)> listener_;
  Random random_;
  Memory memory_;
  std::unique_ptr<actors::JobPlan> plan_;
  std::unique_ptr<Checker> checker_;
  std::uint64_t now_us_ = 0;
  std::uint64_t entries_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::map<schemas::ActorId, Actor> actors_;
  std::map<schemas::ActorId, Actor>::node_type dead_;

  // The coordinator's and the person's memory.
  std::uint64_t generation_ = 0;
  schemas::Placement placement_;
  std::unique_ptr<control::JobState> job_state_;
  bool succeeded_ = false;
  std::string victim_;  // who was killed, as the job must name it
  struct Wish {
    bool last = false;
    std::uint64_t begun = 0;  // when it was told
  };
  std::map<control::CutWish, Wish> wishes_;  // not yet settled
  control::CutWish wishes_told_ = 0;
  bool stopped_ = false;  // a person has ended this run, with a checkpoint
  std::map<schemas::ActorId, std::uint64_t> told_until_us_;  // the coordinator is heard in order

  // The disk.
  std::map<std::uint64_t, std::map<std::uint32_t, Checkpoint>> shard_files_;
  std::map<std::uint64_t, Checkpoint> checkpoints_;
  std::uint32_t disk_faults_ = 0;

  // Traffic and planted bugs.
  using Ends = std::pair<schemas::ActorId, schemas::ActorId>;  // the first is the lower
  std::map<Ends, std::shared_ptr<SimLink>> links_;
  struct Unanswered {
    schemas::Envelope envelope;
    std::uint64_t due_us = 0;
    std::uint64_t pause_us = 0;
  };
  std::vector<Unanswered> unanswered_;  // timed repetition
  std::uint64_t payloads_in_flight_ = 0;
  std::uint64_t payloads_peak_ = 0;
  std::map<std::pair<schemas::SliceId, std::uint64_t>, std::map<store::TreeNode, store::TreeNode>>
      renamed_;
  std::map<schemas::SliceId, base::Buffer> older_;
  bool lost_ = false;
  Outcome outcome_;
};

}  // namespace troupe::sim
