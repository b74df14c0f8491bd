// SPDX-License-Identifier: Apache-2.0
// One actor system, one post office, all roles.
#include "actors/company.h"

#include <algorithm>

#include "actors/local_coordinator.h"
#include "actors/parameter_server.h"
#include "store/slice_rules.h"

namespace troupe::actors {
namespace {

control::JobRoster make_roster(const JobPlan& plan, std::uint64_t start_step,
                               std::uint64_t steps_total, const train::LocalRunOptions& run) {
  control::JobRoster roster;
  roster.job = plan.job;
  roster.generation = plan.generation;
  roster.limits = plan.spec.limits;
  roster.checkpoints = !plan.spec.checkpoint.dir.empty();
  roster.steps_total = steps_total;
  roster.placement.generation = plan.generation;
  roster.placement.start_step = start_step;
  roster.placement.machine_of_rank = store::machine_of_rank_by_group(plan.spec.workers);
  for (std::uint32_t rank = 0; rank < roster.placement.machine_of_rank.size(); ++rank) {
    const base::Device device = run.device_of(rank);
    if (device.kind != base::DeviceKind::cuda) break;  // none of them does
    roster.placement.gpu_of_rank.push_back(static_cast<std::uint32_t>(device.index));
  }
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
  TROUPE_TRY_ASSIGN(ServerJob server_job, open_server_job(job, table, options.run.devices));
  const train::RunStart& start = server_job.start;
  if (start.step == job->steps_end()) {
    observer.began(start);
    return {};
  }
  TROUPE_TRY(check_checkpoint_folder(server_job));
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
  TROUPE_TRY_ASSIGN(const train::LocalSums sums,
                    train::LocalSums::create(plan.spec, table, clock, options.run));
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint32_t rank = 0; rank < plan.spec.ranks(); ++rank) {
    workers.push_back(
        std::make_unique<Worker>(parts, train::rank_options(options.run, sums, rank)));
  }
  LocalCoordinator coordinator(parts, make_roster(plan, start.step, job->steps_end(), options.run),
                               observer);
  observer.began(start);  // no actor of the job calls it yet
  for (const auto& worker : workers) worker->start();
  const base::Status status = coordinator.wait(options.run.stop);
  const auto has_trained = [](const auto& worker) {
    const train::RankFigures* figures = worker->figures();
    return figures != nullptr && figures->steps.load() > 0;
  };
  if (std::ranges::any_of(workers, has_trained)) observer.trained();
  if (status.ok() && options.run.at_end) options.run.at_end();
  return status;
}

}  // namespace troupe::actors
