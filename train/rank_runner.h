// SPDX-License-Identifier: Apache-2.0
// RankRunner: one virtual rank of a job from its first step to its last: batches, steps, barriers
// at the ends of epochs, scoring, reports. It owns the rank's engine, memory, module and iterators,
// and is driven by one thread, which blocks: a rank's own, never an actor's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/device.h"
#include "base/status.h"
#include "base/stream.h"
#include "data/batch_iterator.h"
#include "monitoring/metrics.h"
#include "ndarray/runtime.h"
#include "ops/table.h"
#include "schemas/messages.h"
#include "store/kvstore.h"
#include "train/job.h"
#include "train/module.h"
#include "train/rank_phases.h"

namespace troupe::train {

/// What a rank tells while it runs; called on the rank's thread.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  virtual void progress(const schemas::ProgressReport& report) = 0;
  virtual void scored(const schemas::EvaluationReport& report) = 0;
};

/// What a rank runs with, beside the job.
struct RankOptions {
  std::uint32_t rank = 0;
  std::uint64_t start_step = 0;
  std::string trace_path;  ///< Chrome trace of the rank's engine; empty: none
  base::Device device = {};
  /// Of `device`, if it is no CPU, as EngineOptions has them; a GPU's rank makes its own where
  /// there are none.
  std::vector<base::Stream*> streams = {};
  std::size_t run_bytes = kRunBytes;       ///< as in ModuleOptions
  DeviceSums* sums = nullptr;              ///< as in ModuleOptions
  monitoring::Metrics* metrics = nullptr;  ///< shows the rank while it lives; null: nobody looks
  /// Set from outside when the run is to end early: then no epoch is scored any more.
  const std::atomic<bool>* stop = nullptr;
};

/// Figures of a running rank for metrics; any thread.
struct RankFigures {
  std::atomic<std::uint64_t> steps{0};        ///< committed: their contributions are in the store
  std::atomic<std::uint64_t> global_step{0};  ///< with those before the start
  std::atomic<std::int64_t> last_step_seconds{0};  ///< Unix time of the last commit; 0: none yet
  std::atomic<std::uint64_t> samples{0};
  std::atomic<std::uint64_t> epoch{0};
  std::atomic<double> loss{0.0};
  std::atomic<double> learning_rate{0.0};
};

/// One rank.
class RankRunner {
 public:
  /// Makes engine, memory and module. Nothing is exchanged yet.
  static base::Result<std::unique_ptr<RankRunner>> create(std::shared_ptr<const Job> job,
                                                          const ops::OpTable& table,
                                                          base::Clock& clock,
                                                          const RankOptions& options);
  ~RankRunner();

  ndarray::Runtime& runtime();
  Module& module();
  const RankFigures& figures() const;
  data::BatchFigures data_stats() const;
  /// Of the batches to score with; nothing when the job has none.
  std::optional<data::BatchFigures> score_data_stats() const;
  const RankPhases& phases() const;

  /// Runs steps [start_step, job.steps_end()) against `store`. The first error ends it: of the
  /// store, the data, an operation, or `cancelled` after stop().
  base::Status run(store::KVStore& store, RankObserver& observer);
  /// Ends run() soon, from any thread: outstanding operations complete with `cancelled`.
  void stop(std::string_view reason);

 private:
  struct Parts;
  explicit RankRunner(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::train
