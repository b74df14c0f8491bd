// SPDX-License-Identifier: Apache-2.0
// Effects as engine operations. They name no variables: the state machines order them.
#include "actors/server_compute.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/caught.h"
#include "engine/metrics.h"
#include "ops/numerics.h"
#include "storage/metrics.h"

namespace troupe::actors {

namespace {

struct OperationOfKind {
  std::string_view name;
  engine::LaneKind lane;
};

// By kind. Each lane has one thread, so that all of a kind run one after the other.
constexpr std::array<OperationOfKind, 7> kOperations = {
    {{"add", engine::LaneKind::compute},
     {"copy", engine::LaneKind::copy},
     {"examine", engine::LaneKind::compute},
     {"update", engine::LaneKind::compute},
     {"first values", engine::LaneKind::compute},
     {"write shard", engine::LaneKind::copy},
     {"write manifest", engine::LaneKind::copy}}};

base::Result<ServerJob> begin_server_job(std::shared_ptr<const train::Job> job,
                                         const ops::OpTable& table,
                                         std::span<const base::Device> devices) {
  ServerJob made;
  made.numeric_class = ops::numeric_class(static_cast<int>(job->spec.workers.threads), devices);
  TROUPE_TRY_ASSIGN(made.compute, store::SliceCompute::create(table, job->keys.keys, job->rule()));
  made.job = std::move(job);
  return made;
}

base::Status open_first_values(ServerJob& made) {
  TROUPE_TRY_ASSIGN(train::FirstValues first,
                    train::FirstValues::create(made.job, std::move(made.start.checkpoint)));
  made.first = std::make_shared<const train::FirstValues>(std::move(first));
  return {};
}

}  // namespace

base::Result<ServerJob> open_server_job(std::shared_ptr<const train::Job> job,
                                        const ops::OpTable& table,
                                        std::span<const base::Device> devices) {
  TROUPE_TRY_ASSIGN(ServerJob made, begin_server_job(job, table, devices));
  TROUPE_TRY_ASSIGN(made.start,
                    train::find_start(*job, made.numeric_class, store::CheckpointCheck::contents));
  TROUPE_TRY(open_first_values(made));
  return made;
}

base::Result<ServerJob> open_server_job(std::shared_ptr<const train::Job> job,
                                        const ops::OpTable& table,
                                        const schemas::LaunchProcess& launch) {
  TROUPE_TRY_ASSIGN(ServerJob made, begin_server_job(job, table, devices_of(launch)));
  if (launch.actor.role == schemas::Role::parameter_server) {
    TROUPE_TRY_ASSIGN(made.start, train::open_start(*job, made.numeric_class, launch.checkpoint));
    TROUPE_TRY(open_first_values(made));
  }
  made.start.generation = launch.generation;
  made.start.copied = launch.copied;
  return made;
}

std::vector<base::Device> devices_of(const schemas::LaunchProcess& launch) {
  std::vector<base::Device> devices;
  for (const std::uint32_t index : launch.gpus) {
    devices.push_back({base::DeviceKind::cuda, static_cast<std::int32_t>(index)});
  }
  return devices;
}

base::Status check_checkpoint_folder(const ServerJob& job) {
  const std::vector<std::string>& slots = job.compute->slots();
  const auto writer = train::make_checkpoint_writer(job.job, job.numeric_class, job.start, slots);
  return train::check_checkpoint_folder(*job.job, writer, slots.size());
}

ServerCompute::ServerCompute(ServerJob job, const store::SliceLayout& layout, base::Clock& clock,
                             Done done, ComputeWatch watch)
    : job_(std::move(job)),
      checkpoints_(train::make_checkpoint_writer(job_.job, job_.numeric_class, job_.start,
                                                 job_.compute->slots())),
      layout_(layout),
      clock_(clock),
      done_(std::move(done)),
      watch_(std::move(watch)),
      storage_({.cache_bytes_max = job_.job->spec.limits.pool_cache_bytes_max}) {
  engine::EngineOptions options;
  options.threads = static_cast<int>(job_.job->spec.servers.threads);
  options.engine_pending_operations_max = job_.job->spec.limits.engine_pending_operations_max;
  options.engine_pending_bytes_max = job_.job->spec.limits.engine_pending_bytes_max;
  options.thread_name = "server";
  engine_ = engine::make_threaded_engine(options, clock);
  if (watch_.metrics == nullptr) return;
  shown_.push_back(engine::show_engine(*watch_.metrics, *engine_, watch_.name));
  shown_.push_back(storage::show_storage(*watch_.metrics, storage_, watch_.name));
}

ServerCompute::~ServerCompute() = default;

const schemas::KeyInfo& ServerCompute::key(const schemas::SliceId& slice) const {
  return job_.job->keys.keys[slice.key];
}

void ServerCompute::submit(Computed::Kind kind, EffectId id, Work work) {
  const auto& [name, lane] = kOperations.at(static_cast<std::size_t>(kind));
  engine_->push({name, {}, {}, {{}, lane}, 0},
                [this, kind, id, work = std::move(work), name = name](engine::RunContext& context) {
                  const std::int64_t begin_ns = clock_.now_ns();
                  // The state machine waits for an answer, whatever happens.
                  base::Result<EffectResult> result = base::caught(name, [&] {
                    return work({pool(), kernels_, context});
                  });
                  EffectDone done{id, result.status(), {}};
                  if (result.ok()) done.result = std::move(result).value();
                  if (watch_.computed) tell(kind, begin_ns, done);
                  done_(std::move(done));
                  return base::Status();
                });
}

void ServerCompute::tell(Computed::Kind kind, std::int64_t begin_ns, const EffectDone& done) const {
  Computed computed{kind, static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9, done.status};
  if (const auto* file = std::get_if<schemas::ShardCheckpoint>(&done.result)) {
    computed.bytes = file->bytes;
  }
  watch_.computed(computed);
}

void ServerCompute::run(Add add) {
  submit(Computed::Kind::add, add.id,
         [this, add](const store::UpdateContext& where) -> base::Result<EffectResult> {
           TROUPE_TRY_ASSIGN(base::Buffer sum,
                             job_.compute->add(key(add.slice), add.left, add.right, where));
           return EffectResult(std::move(sum));
         });
}

void ServerCompute::run(Copy copy) {
  submit(Computed::Kind::copy, copy.id,
         [copy](const store::UpdateContext& where) -> base::Result<EffectResult> {
           TROUPE_TRY_ASSIGN(base::Buffer made,
                             where.pool.allocate(copy.from.size(), "gradient sums"));
           std::memcpy(made.data(), copy.from.data(), copy.from.size());
           return EffectResult(std::move(made));
         });
}

void ServerCompute::run(Examine examine) {
  submit(Computed::Kind::examine, examine.id,
         [this, examine](const store::UpdateContext&) -> base::Result<EffectResult> {
           return EffectResult(job_.compute->examine(key(examine.slice), examine.examination));
         });
}

void ServerCompute::run(Update update) {
  submit(Computed::Kind::update, update.id,
         [this, update](const store::UpdateContext& where) -> base::Result<EffectResult> {
           TROUPE_TRY_ASSIGN(store::SliceValues values,
                             job_.compute->update(key(update.slice), update.update, where));
           return EffectResult(std::move(values));
         });
}

void ServerCompute::run(InitSlice init) {
  const store::SliceInfo& info = layout_.info(init.slice);
  TROUPE_CHECK(job_.first != nullptr, "first values of a server that has begun");
  submit(Computed::Kind::init, init.id,
         [this, init, &info,
          first = job_.first](const store::UpdateContext& where) -> base::Result<EffectResult> {
           if (init.step != job_.start.step) {
             return base::error(base::Errc::failed_precondition,
                                "the job starts at step {}, the newest checkpoint here is of {}",
                                init.step, job_.start.step);
           }
           TROUPE_TRY_ASSIGN(store::SliceState state,
                             (*first)(key(init.slice), info, *job_.compute, where.pool));
           return EffectResult(std::move(state));
         });
  if (inits_left_ == 0) {
    inits_left_ = std::ranges::count(layout_.slices(), info.shard, &store::SliceInfo::shard);
  }
  if (--inits_left_ == 0) job_.first.reset();
}

void ServerCompute::run(WriteShard write, std::uint32_t shard, std::uint32_t shards) {
  const EffectId id = write.id;
  submit(Computed::Kind::shard, id,
         [this, write = std::move(write), shard, shards](const store::UpdateContext&) {
           return write_shard(write, shard, shards);
         });
}

void ServerCompute::run(WriteManifest write) {
  const EffectId id = write.id;
  submit(Computed::Kind::manifest, id,
         [this, write = std::move(write)](const store::UpdateContext&) {
           return write_manifest(write);
         });
}

void ServerCompute::run(RemoveCheckpoint remove) {
  // Where the coordinator keeps copies, it says what may go: this may be the only whole one.
  if (job_.start.copied) return;
  engine_->push({"remove checkpoint", {}, {}, engine::kHostCopyLane, 0},
                [this, remove](engine::RunContext&) {
                  checkpoints_.remove(remove.step);
                  return base::Status();
                });
}

base::Result<EffectResult> ServerCompute::write_shard(const WriteShard& write, std::uint32_t shard,
                                                      std::uint32_t shards) const {
  std::vector<store::SliceRecord> records;
  for (const CutSlice& cut : write.slices) records.push_back({cut.slice, cut.state});
  TROUPE_TRY_ASSIGN(schemas::ShardFile file,
                    checkpoints_.write_shard(write.step, shard, shards, records));
  schemas::ShardCheckpoint report;
  report.step = write.step;
  report.shard = shard;
  report.file = std::move(file.name);
  report.bytes = file.bytes;
  report.chunk_bytes = file.chunk_bytes;
  report.checksums = std::move(file.checksums);
  return EffectResult(std::move(report));
}

base::Result<EffectResult> ServerCompute::write_manifest(const WriteManifest& write) const {
  std::vector<schemas::ShardFile> files;
  for (const schemas::ShardCheckpoint& shard : write.shards) {
    files.push_back({shard.shard, shard.file, shard.bytes, shard.chunk_bytes, shard.checksums});
  }
  TROUPE_TRY_ASSIGN(std::string path,
                    checkpoints_.write_manifest(write.step, write.start, std::move(files)));
  return EffectResult(std::move(path));
}

}  // namespace troupe::actors
