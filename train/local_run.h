// SPDX-License-Identifier: Apache-2.0
// A whole job in this process over the local store: one thread per rank, no actors. The plainest
// way to train, and the reference that the company's results must equal to the bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/device.h"
#include "base/status.h"
#include "base/stream.h"
#include "control/job_progress.h"
#include "monitoring/metrics.h"
#include "ops/table.h"
#include "train/device_sums.h"
#include "train/job.h"
#include "train/rank_runner.h"
#include "train/resume.h"

namespace troupe::train {

/// What a job tells while it runs. Calls come one at a time, from any thread.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  /// Everything given was found fit and training begins: what fails from here on is the job.
  virtual void began(const RunStart&) {}
  /// At the end of a run in which a step was done by all ranks.
  virtual void trained() {}
  virtual void progress(const control::StepProgress& progress) = 0;
  virtual void scored(const control::EpochScore& score) = 0;
  /// A checkpoint is durable.
  virtual void checkpointed(std::uint64_t step, const std::string& path) = 0;
};

/// How a local run is made beside its job.
struct LocalRunOptions {
  std::string trace_path;  ///< Chrome trace of rank 0's engine; empty: none
  /// Set from outside to end the run early, with a checkpoint where the job writes any.
  const std::atomic<bool>* stop = nullptr;
  std::vector<base::Device> devices = {};  ///< rank r computes on the r-th, again from the first
                                           ///< where there are fewer; empty: on the CPU
  monitoring::Metrics* metrics = nullptr;  ///< shows the ranks; null: nobody looks
  std::function<void()> at_end = {};       ///< after the last step, while the ranks still show
  std::size_t run_bytes = kRunBytes;       ///< as in ModuleOptions
  /// By rank, as RankOptions has them.
  std::vector<std::vector<base::Stream*>> streams = {};
  /// By machine, as DeviceSumsOptions has them.
  std::vector<std::vector<base::Stream*>> sum_streams = {};

  base::Device device_of(std::uint32_t rank) const {
    return devices.empty() ? base::Device{} : devices[rank % devices.size()];
  }
};

/// What adds gradients on devices in a run: each group of ranks is a machine.
class LocalSums {
 public:
  static base::Result<LocalSums> create(const schemas::JobSpec& job, const ops::OpTable& table,
                                        base::Clock& clock, const LocalRunOptions& options);
  /// Null: nothing is added on devices.
  DeviceSums* of_rank(std::uint32_t rank) const;

 private:
  std::vector<std::uint32_t> machine_of_rank_;
  std::vector<std::unique_ptr<DeviceSums>> by_machine_;
};

/// What rank `rank` of the run is made with; its first step is the caller's to set.
RankOptions rank_options(const LocalRunOptions& options, const LocalSums& sums, std::uint32_t rank);

/// Trains from the newest checkpoint or the start to the job's end, and writes checkpoints. The
/// first error of any rank is the job's, prefixed with the rank; `cancelled` when stopped.
base::Status run_local(const std::shared_ptr<const Job>& job, const ops::OpTable& table,
                       base::Clock& clock, JobObserver& observer,
                       const LocalRunOptions& options = {});

}  // namespace troupe::train
