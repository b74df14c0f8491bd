// SPDX-License-Identifier: Apache-2.0
// One actor system, one post office, all roles.
#include "actors/company.h"

#include <mutex>

#include "actors/parameter_server.h"
#include "base/log.h"
#include "control/job_state.h"
#include "store/slice_rules.h"

namespace troupe::actors {
namespace {

// The job as an actor: the coordinator's part that a run in one process needs.
class JobActor {
 public:
  JobActor(const JobParts& parts, control::JobRoster roster, train::JobObserver& observer)
      : parts_(parts),
        observer_(observer),
        state_(std::move(roster)),
        actor_(std::make_unique<RoleActor>(parts.actors, kCoordinator.to_string(), parts.clock,
                                           tick_ms(parts.plan.spec.limits),
                                           [this](std::uint64_t now_ms) { tick(now_ms); })) {
    parts_.post_office.open(kCoordinator, [this](schemas::Envelope envelope) {
      actor_->post(
          [this, held = std::move(envelope)] { run(state_.received(held.from, held.message)); });
    });
  }
  ~JobActor() {
    parts_.post_office.close(kCoordinator);
    actor_->end();
  }

  // Waits for the job's end; `stop` asks for an early one.
  base::Status wait(const std::atomic<bool>* stop) {
    const base::MutexLock lock(mutex_);
    while (!ended_) {
      changed_.wait_for(mutex_, std::chrono::milliseconds(20));
      if (stop != nullptr && stop->load()) stop_wanted_.store(true);
    }
    return result_;
  }

 private:
  void tick(std::uint64_t now_ms) {
    if (!begun_) run(state_.begin(now_ms));
    begun_ = true;
    run(state_.tick(now_ms));
    if (stop_wanted_.load()) {
      run(state_.fail(base::error(base::Errc::cancelled, "the run was stopped")));
    }
  }

  void run(std::vector<control::JobEffect> effects) {
    for (control::JobEffect& effect : effects)
      std::visit([this](auto& what) { perform(what); }, effect);
  }

  void perform(control::JobSend& send) {
    schemas::Envelope envelope;
    envelope.job = parts_.plan.job;
    envelope.generation = parts_.plan.generation;
    envelope.from = kCoordinator;
    envelope.to = send.to;
    envelope.message = std::move(send.message);
    parts_.post_office.post(std::move(envelope));
  }
  void perform(const control::JobStepped& stepped) { observer_.progress(stepped.progress); }
  void perform(const control::JobScored& scored) { observer_.scored(scored.score); }
  void perform(const control::JobCheckpointed& cut) { observer_.checkpointed(cut.step, cut.path); }
  void perform(const control::JobWarned& warned) { base::log_warn("{}", warned.text); }
  void perform(const control::JobEnded& end) {
    const base::MutexLock lock(mutex_);
    ended_ = true;
    result_ = end.status;
    changed_.notify_all();
  }

  const JobParts parts_;
  train::JobObserver& observer_;
  control::JobState state_;  // the actor's alone
  bool begun_ = false;
  std::atomic<bool> stop_wanted_{false};
  base::Mutex mutex_;
  base::CondVar changed_;
  bool ended_ TROUPE_GUARDED_BY(mutex_) = false;
  base::Status result_ TROUPE_GUARDED_BY(mutex_);
  std::unique_ptr<RoleActor> actor_;
};

control::JobRoster make_roster(const JobPlan& plan, std::uint64_t start_step) {
  control::JobRoster roster;
  roster.job = plan.job;
  roster.generation = plan.generation;
  roster.limits = plan.spec.limits;
  roster.placement.generation = plan.generation;
  roster.placement.start_step = start_step;
  roster.placement.machine_of_rank = store::machine_of_rank_by_group(plan.spec.workers);
  for (std::uint32_t shard = 0; shard < plan.layout.shards(); ++shard) {
    roster.placement.machine_of_shard.push_back(shard % plan.spec.workers.machines);
  }
  for (std::uint32_t machine = 0; machine < plan.spec.workers.machines; ++machine) {
    roster.placement.machines.push_back("local-" + std::to_string(machine));
  }
  return roster;
}

}  // namespace

base::Status run_company(const std::shared_ptr<const train::Job>& job, const ops::OpTable& table,
                         base::Clock& clock, train::JobObserver& observer,
                         const CompanyOptions& options) {
  TROUPE_TRY_ASSIGN(ServerJob server_job, open_server_job(job, table));
  const train::RunStart& start = server_job.start;
  if (start.step == job->steps_end()) return {};
  TROUPE_TRY_ASSIGN(const JobPlan plan,
                    make_job_plan(job->spec.name, start.generation, job->spec, job->keys.keys));
  ActorSystem actors;
  PostOffice post_office;
  const JobParts parts{actors, post_office, plan, job, table, clock};
  const auto watch = [&](schemas::Role role, std::uint32_t index) {
    return options.server_observer ? options.server_observer({role, index}) : ServerObserver();
  };
  std::vector<std::unique_ptr<ParameterServer>> shards;
  for (std::uint32_t shard = 0; shard < plan.layout.shards(); ++shard) {
    shards.push_back(std::make_unique<ParameterServer>(
        parts, server_job, shard, watch(schemas::Role::parameter_server, shard)));
  }
  server_job.first.reset();
  std::vector<std::unique_ptr<DeviceServer>> machines;
  for (std::uint32_t machine = 0; machine < plan.spec.workers.machines; ++machine) {
    machines.push_back(std::make_unique<DeviceServer>(
        parts, server_job, machine, watch(schemas::Role::device_server, machine)));
  }
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint32_t rank = 0; rank < plan.spec.ranks(); ++rank) {
    train::RankOptions how;
    how.rank = rank;
    how.device = options.run.device;
    if (!options.run.streams.empty()) how.streams = {options.run.streams[rank]};
    how.metrics = options.run.metrics;
    if (rank == 0) how.trace_path = options.run.trace_path;
    workers.push_back(std::make_unique<Worker>(parts, how));
  }
  JobActor coordinator(parts, make_roster(plan, start.step), observer);
  observer.began(start);  // no actor of the job calls it yet
  for (const auto& worker : workers) worker->start();
  const base::Status status = coordinator.wait(options.run.stop);
  if (status.ok() && options.run.at_end) options.run.at_end();
  return status;
}

}  // namespace troupe::actors
