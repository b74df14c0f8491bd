// SPDX-License-Identifier: Apache-2.0
// ServerCompute: runs the effects of device servers and parameter servers that touch bytes, on an
// engine of the server's own, and reports each end as an EffectDone. Any thread may call run();
// `done` is called on an engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/effects.h"
#include "engine/engine.h"
#include "monitoring/metrics.h"
#include "ndarray/prepared_kernels.h"
#include "storage/storage.h"
#include "store/checkpoint_writer.h"
#include "store/slice_compute.h"
#include "train/resume.h"

namespace troupe::actors {

/// What all servers of a job in this process share; made once.
struct ServerJob {
  std::shared_ptr<const train::Job> job;
  base::NumericClass numeric_class;
  train::RunStart start;  ///< without the checkpoint
  std::shared_ptr<const store::SliceCompute> compute;
  /// Holds the checkpoint. For parameter servers; whoever has made those drops it, since they do as
  /// soon as their slices have begun.
  std::shared_ptr<const train::FirstValues> first;
};

/// Opens what servers need beside the job: optimizer, checkpoint or weight file. For all of a job's
/// servers in one process, which begins at the newest checkpoint, read whole before it is believed.
/// `devices`: what its workers compute on.
base::Result<ServerJob> open_server_job(std::shared_ptr<const train::Job> job,
                                        const ops::OpTable& table,
                                        std::span<const base::Device> devices);
/// The same for the one that `launch` names, which begins where it says: a parameter server reads
/// its own part of the checkpoint, later; a device server has neither checkpoints nor first values.
base::Result<ServerJob> open_server_job(std::shared_ptr<const train::Job> job,
                                        const ops::OpTable& table,
                                        const schemas::LaunchProcess& launch);
/// What the ranks of `launch` compute on, by position; empty: on the CPU.
std::vector<base::Device> devices_of(const schemas::LaunchProcess& launch);
/// train::check_checkpoint_folder() for the parameter servers of this process.
base::Status check_checkpoint_folder(const ServerJob& job);

/// An effect that has been computed. All of one kind come one after the other.
struct Computed {
  enum class Kind : std::uint8_t { add, copy, examine, update, init, shard, manifest };
  Kind kind = Kind::add;
  double seconds = 0.0;
  base::Status status;
  std::uint64_t bytes = 0;  ///< shard: of its file
};

/// Who watches a server's engine; all may be empty.
struct ComputeWatch {
  std::function<void(const Computed&)> computed = {};  ///< called on engine threads
  monitoring::Metrics* metrics = nullptr;              ///< shows engine and memory
  std::string name = {};                               ///< under this name
};

/// See the top of the file.
class ServerCompute {
 public:
  using Done = std::function<void(EffectDone)>;

  /// `done` must outlive every effect; the destructor waits for those running.
  ServerCompute(ServerJob job, const store::SliceLayout& layout, base::Clock& clock, Done done,
                ComputeWatch watch = {});
  ~ServerCompute();

  void run(Add add);
  void run(Copy copy);
  void run(Examine examine);
  void run(Update update);
  /// Each slice of the server once, from one thread; after the last no first values are kept.
  void run(InitSlice init);
  /// `shard` of `shards` is the writer.
  void run(WriteShard write, std::uint32_t shard, std::uint32_t shards);
  void run(WriteManifest write);
  void run(RemoveCheckpoint remove);

  /// Memory that links read gradients and weights into.
  base::BufferPool& pool() { return storage_.pool(base::Device{}); }
  const storage::Storage& storage() const { return storage_; }

 private:
  using Work = std::function<base::Result<EffectResult>(const store::UpdateContext&)>;
  void submit(Computed::Kind kind, EffectId id, Work work);
  void tell(Computed::Kind kind, std::int64_t begin_ns, const EffectDone& done) const;
  const schemas::KeyInfo& key(const schemas::SliceId& slice) const;
  base::Result<EffectResult> write_shard(const WriteShard& write, std::uint32_t shard,
                                         std::uint32_t shards) const;
  base::Result<EffectResult> write_manifest(const WriteManifest& write) const;

  ServerJob job_;  // `first` goes, all else stays
  const store::CheckpointWriter checkpoints_;
  std::ptrdiff_t inits_left_ = 0;
  const store::SliceLayout& layout_;
  base::Clock& clock_;
  const Done done_;
  const ComputeWatch watch_;
  storage::Storage storage_;
  ndarray::PreparedKernels kernels_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<monitoring::Collection> shown_;  // of engine and memory
};

}  // namespace troupe::actors
