// SPDX-License-Identifier: Apache-2.0
// LocalStore: the KVStore of ranks that share one process, without servers. It adds along the same
// tree and updates by the same SliceOwner and SliceCompute as the parameter servers, so it ends in
// the same bits. Both tiers sequential. Every rank has a KVStore of its own; work is done on the
// threads of whichever rank's engine brought it about. The store outlives them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "ndarray/runtime.h"
#include "ops/table.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/kvstore.h"
#include "store/schedule.h"

namespace troupe::store {

class SliceCompute;
struct SliceInfo;
struct SliceState;

/// A complete cut: every slice at one step. Called on an engine thread; an error ends the job.
using CutFunction =
    std::function<base::Status(std::uint64_t step, std::vector<std::pair<SliceInfo, SliceState>>)>;
/// First state of a slice, by key.
using FirstFunction =
    std::function<base::Result<SliceState>(const schemas::KeyInfo& key, const SliceInfo& slice,
                                           const SliceCompute& compute, base::BufferPool& pool)>;

/// What a local store is made of.
struct LocalStoreOptions {
  schemas::WorkersSpec workers;          ///< machines x devices: the ranks and their tree
  schemas::ConsistencySpec consistency;  ///< invalid_argument unless both tiers are sequential
  std::uint32_t batch = 1;               ///< samples of one rank in a whole step, N / V
  StepPlan steps;
  FirstFunction first;  ///< where init() brings no values
  CutFunction cut;      ///< may be empty
  /// Others' wait for a rank that has not begun; then all of them fail, and the error names it.
  std::uint64_t deadline_ms = 60'000;
  /// The same for ranks that have begun, where nothing has been pushed for so long.
  std::uint64_t stall_ms = 1'800'000;
};

/// What it computes with; all outlive the store.
struct LocalStoreParts {
  const ops::OpTable& table;
  base::BufferPool& pool;
  ndarray::PreparedKernels& kernels;
};

/// The store behind them.
class LocalStore {
 public:
  static base::Result<std::unique_ptr<LocalStore>> create(const LocalStoreParts& parts,
                                                          const LocalStoreOptions& options);
  ~LocalStore();

  /// The KVStore of a rank; `runtime` is the rank's, and outlives it. CHECKs the rank.
  std::unique_ptr<KVStore> rank_store(std::uint32_t rank, ndarray::Runtime& runtime);
  /// Has every slice cut soon, out of turn, and says at which step: behind all that has begun, at
  /// most the last one; the same step when it is asked again. Nothing: slices have no first values
  /// yet, or there are no checkpoints. Any thread.
  std::optional<std::uint64_t> cut_soon();
  /// Fails every waiting and later operation: one rank's end is everybody's.
  void fail(const base::Status& status);
  /// The first failure, also of what no rank waits for any more: the last cut.
  base::Status failure() const;

  /// The shared half; defined in the source file.
  class Core;

 private:
  explicit LocalStore(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
  std::thread watch_;  // with several ranks: looks after those that wait
};

}  // namespace troupe::store
