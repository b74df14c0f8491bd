// SPDX-License-Identifier: Apache-2.0
// ServerCompute: runs the effects of device servers and parameter servers that touch bytes, on an
// engine of the server's own, and reports each end as an EffectDone. Any thread may call run();
// `done` is called on an engine thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "actors/effects.h"
#include "engine/engine.h"
#include "ndarray/prepared_kernels.h"
#include "storage/storage.h"
#include "train/resume.h"
#include "train/slice_compute.h"

namespace troupe::actors {

/// What all servers of a job in this process share; made once.
struct ServerJob {
  std::shared_ptr<const train::Job> job;
  base::NumericClass numeric_class;
  std::shared_ptr<const train::RunStart> start;
  std::shared_ptr<const train::SliceCompute> compute;
  std::shared_ptr<const train::FirstValues> first;
};

/// Opens what servers need beside the job: optimizer, checkpoint or weight file.
base::Result<ServerJob> open_server_job(std::shared_ptr<const train::Job> job,
                                        const ops::OpTable& table);

/// See the top of the file.
class ServerCompute {
 public:
  using Done = std::function<void(EffectDone)>;

  /// `done` must outlive every effect; the destructor waits for those running.
  ServerCompute(ServerJob job, const train::SliceLayout& layout, base::Clock& clock, Done done);
  ~ServerCompute();

  void run(Add add);
  void run(Copy copy);
  void run(Update update);
  void run(InitSlice init);
  /// `shard` of `shards` is the writer.
  void run(WriteShard write, std::uint32_t shard, std::uint32_t shards);
  void run(WriteManifest write);

  /// Memory that links read gradients and weights into.
  base::BufferPool& pool() { return storage_.pool(base::Device{}); }
  const storage::Storage& storage() const { return storage_; }

 private:
  using Work = std::function<base::Result<EffectResult>(const train::UpdateContext&)>;
  void submit(std::string_view name, EffectId id, engine::LaneKind lane, Work work);
  const schemas::KeyInfo& key(const schemas::SliceId& slice) const;
  base::Result<EffectResult> write_shard(const WriteShard& write, std::uint32_t shard,
                                         std::uint32_t shards) const;
  base::Result<EffectResult> write_manifest(const WriteManifest& write) const;

  const ServerJob job_;
  const train::SliceLayout& layout_;
  const Done done_;
  storage::Storage storage_;
  ndarray::PreparedKernels kernels_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace troupe::actors
