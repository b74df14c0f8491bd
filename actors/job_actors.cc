// SPDX-License-Identifier: Apache-2.0
// Opening a process's part of a job.
#include "actors/job_actors.h"

#include "gpu/inventory.h"
#include "schemas/codec.h"

namespace troupe::actors {

JobActors::JobActors(std::unique_ptr<const ops::OpTable> table, ServerJob job, JobPlan plan,
                     base::Clock& clock)
    : table_(std::move(table)),
      server_job_(std::move(job)),
      plan_(std::move(plan)),
      parts_{actors_, post_office_, plan_, server_job_.job, *table_, clock} {}

JobActors::~JobActors() = default;

base::Result<std::unique_ptr<JobActors>> JobActors::open(const schemas::LaunchProcess& launch,
                                                         const schemas::JobRoots& roots,
                                                         base::Clock& clock,
                                                         monitoring::Metrics& metrics,
                                                         ServerObserver observer) {
  TROUPE_TRY_ASSIGN(schemas::JobSpec spec, schemas::decode_job_spec(launch.job_text));
  TROUPE_TRY(ops::cap_instruction_set(name_of(spec.numerics.isa)));
  auto table = std::make_unique<const ops::OpTable>(ops::OpTable::build());
  TROUPE_TRY_ASSIGN(auto job, train::open_job(spec, *table, roots));
  const bool server = launch.actor.role == schemas::Role::parameter_server;
  if (!server) {
    for (const base::Device device : devices_of(launch)) TROUPE_TRY(gpu::check_device(device));
  }
  TROUPE_TRY(train::check_room(*job, launch.ranks.size(), server ? 1 : 0));
  TROUPE_TRY_ASSIGN(ServerJob server_job, open_server_job(job, *table, launch));
  if (server) TROUPE_TRY(check_checkpoint_folder(server_job));
  TROUPE_TRY_ASSIGN(JobPlan plan,
                    make_job_plan(launch.job, launch.generation, std::move(spec), job->keys.keys));
  std::unique_ptr<JobActors> made(
      new JobActors(std::move(table), std::move(server_job), std::move(plan), clock));
  const std::uint32_t index = launch.actor.index;
  if (server) {
    made->parameter_server_ = std::make_unique<ParameterServer>(made->parts_, made->server_job_,
                                                                index, std::move(observer));
  }
  made->server_job_.first.reset();
  if (server) return made;
  made->device_server_ =
      std::make_unique<DeviceServer>(made->parts_, made->server_job_, index, std::move(observer));
  const std::vector<base::Device> devices = devices_of(launch);
  std::vector<train::SumRank> ranks;
  for (std::size_t i = 0; i < launch.ranks.size(); ++i) {
    ranks.push_back({launch.ranks[i], devices.empty() ? base::Device{} : devices[i]});
  }
  made->device_ = ranks.empty() ? base::Device{} : ranks.front().device;
  TROUPE_TRY_ASSIGN(made->sums_, train::DeviceSums::create(made->plan_.spec, ranks, *made->table_,
                                                           clock, {.metrics = &metrics}));
  for (const train::SumRank& at : ranks) {
    train::RankOptions options;
    options.rank = at.rank;
    options.device = at.device;
    options.metrics = &metrics;
    options.sums = made->sums_.get();
    made->workers_.emplace_back(options.rank, std::make_unique<Worker>(made->parts_, options));
  }
  return made;
}

void JobActors::link_resumed(schemas::ActorId peer) const {
  if (parameter_server_) parameter_server_->post(LinkResumed{peer});
  if (device_server_) device_server_->post(LinkResumed{peer});
}

void JobActors::rest() {
  if (parameter_server_) parameter_server_->rest();
  if (device_server_) device_server_->rest();
  for (const auto& [rank, worker] : workers_) worker->rest();
}

void JobActors::start() {
  for (const auto& [rank, worker] : workers_) worker->start();
}

}  // namespace troupe::actors
