// SPDX-License-Identifier: Apache-2.0
// DeviceSums: gradients of ranks that share this process, added on their devices before a store
// sees them: left + right along the job's tree, whatever came first, so the bits are those of a
// store that adds them on the host. One sum of several ranks leaves the devices then, not one
// gradient of each. It has memory of its own and an engine for each device. push(): a rank's
// thread; the rest: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/device.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/stream.h"
#include "engine/engine.h"
#include "monitoring/metrics.h"
#include "ndarray/prepared_kernels.h"
#include "ndarray/runtime.h"
#include "ops/table.h"
#include "schemas/job_spec.h"
#include "storage/storage.h"
#include "store/slice_sum.h"
#include "train/store_arrays.h"

namespace troupe::train {

/// A rank and what it computes on.
struct SumRank {
  std::uint32_t rank = 0;
  base::Device device;
};

/// How sums are made beside their job.
struct DeviceSumsOptions {
  /// Two per device, for kernels and for copies to the host; owned by the caller, outlive the sums.
  /// Empty: GPUs get their own.
  std::vector<base::Stream*> streams = {};
  monitoring::Metrics* metrics = nullptr;  ///< shows engine and memory; null: nobody looks
  std::string name = "sums";               ///< under this name, the engines with their devices
};

/// A rank's part in the sum of a run.
struct SumPush {
  std::uint32_t rank = 0;
  std::size_t run = 0;  ///< its position among the rank's runs, which are alike in all ranks
  std::uint64_t step = 0;
  double count = 0.0;  ///< as in store::PushInfo; 0: nothing, whatever the arrays hold
  int priority = 0;
};

/// See the top of the file. Made before its ranks, destroyed behind them.
class DeviceSums {
 public:
  /// The sums of `ranks`: all that one machine has of the job, which are in this process. Null
  /// where there is nothing to add here: no two of them meet in a node of the tree, one computes on
  /// a CPU or on a device for which there is no stream, the job wants no sums on GPUs, or its
  /// device tier is eventual, where gradients are not added step by step. Errors: those of a GPU.
  static base::Result<std::unique_ptr<DeviceSums>> create(const schemas::JobSpec& job,
                                                          std::span<const SumRank> ranks,
                                                          const ops::OpTable& table,
                                                          base::Clock& clock,
                                                          const DeviceSumsOptions& options = {});
  ~DeviceSums();

  /// The way of a rank's gradients; to_host for one that shares no node, which never pushes.
  GradientWay way(std::uint32_t rank) const;
  /// The ranks whose sum a rank leads, for people: "ranks 0-3".
  std::string ranks_text(std::uint32_t lead) const;

  /// Pushes an operation of the rank's engine that reads what the run's gradients become on their
  /// way and overwrites the host's arrays of the run, if it has any, with the sum. It ends when
  /// nobody reads this rank's gradients any more, and waits for the other ranks without a thread;
  /// Engine::cancel ends it early. The first failure of an addition or a copy ends all that wait
  /// and all that come. The count of the sum for the rank that leads it, 0 for the others: known
  /// when the operation has ended.
  std::shared_ptr<const double> push(ndarray::Runtime& runtime, const SumPush& push,
                                     const std::shared_ptr<const KeyRun>& run);

 private:
  struct SumName {
    std::uint64_t step = 0;
    std::size_t run = 0;
    store::TreeNode node;
    friend auto operator<=>(const SumName&, const SumName&) = default;
  };
  // A rank's operation that has begun.
  struct Waiting {
    engine::Completion completion;
    base::Buffer host;  // of the rank that leads
    std::shared_ptr<double> counted;
  };
  // One run of one step and node.
  struct Sum {
    explicit Sum(const store::AdditionTree& tree) : values(tree) {}
    store::SliceSum values;
    std::vector<RunPart> parts;
    std::map<std::uint32_t, Waiting> ranks;  // that have come
    int priority = 0;
  };
  // What computes on one device.
  struct OnDevice {
    std::vector<std::unique_ptr<base::Stream>> streams;  // of its own
    std::unique_ptr<engine::Engine> engine;
  };
  struct Work;
  struct Todo;  // once the mutex is free
  class Running;
  class Alarm;

  DeviceSums(const schemas::JobSpec& job, std::span<const SumRank> ranks,
             const ops::OpTable& table);
  base::Status open(std::span<const SumRank> ranks, base::Clock& clock,
                    const DeviceSumsOptions& options);
  base::Result<OnDevice> open_device(base::Device device, base::Clock& clock,
                                     const DeviceSumsOptions& options);
  const store::TreeNode* node_of(std::uint32_t rank) const;
  void take(const SumPush& push, const KeyRun& run, Waiting waiting);
  void advance(const SumName& name, Sum& sum, Todo& todo) TROUPE_REQUIRES(mutex_);
  void end(const SumName& name, Todo& todo) TROUPE_REQUIRES(mutex_);
  void perform(Todo todo);
  void start(std::shared_ptr<Running> running);
  base::Result<base::Buffer> issue(Running& running, engine::RunContext& lane);
  base::Result<base::Buffer> issue_addition(Running& running, engine::RunContext& lane);
  void done(const Work& work, base::Buffer result);
  void fail(const base::Status& status);

  const store::AdditionTree tree_;
  const ops::OpTable& table_;
  const base::Status dropped_;          // made beforehand: it tells of missing memory
  std::vector<store::TreeNode> nodes_;  // the largest with all their ranks here, and at least two
  storage::Storage storage_;
  ndarray::PreparedKernels kernels_;
  base::Mutex mutex_;
  std::map<SumName, Sum> sums_ TROUPE_GUARDED_BY(mutex_);
  base::Status failure_ TROUPE_GUARDED_BY(mutex_);
  std::map<base::Device, OnDevice> devices_;
  std::vector<monitoring::Collection> shown_;  // of engines and memory
};

}  // namespace troupe::train
