// SPDX-License-Identifier: Apache-2.0
// BatchIterator: the batches of one rank in step order, made ahead of time by own threads and
// bounded in number. Which batch comes at a step depends on the plan alone, never on threads,
// timing or where the iterator started. One consumer at a time calls next() and seek(); stats()
// may be read by any thread. Destruction waits for the batches being made.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/dealer.h"
#include "monitoring/metrics.h"

namespace troupe::data {

inline constexpr std::uint32_t kPrefetchThreadsMax = 64;
inline constexpr std::uint32_t kPrefetchBatchesMax = 1024;

/// How far and how wide to read ahead.
struct PrefetchOptions {
  std::uint32_t threads = 1;  ///< 1 .. kPrefetchThreadsMax
  std::uint32_t batches = 4;  ///< ready or being made, at most; 1 .. kPrefetchBatchesMax
};

/// What an iterator works on. Pool and clock outlive it and its batches.
struct BatchSources {
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const BatchPlan> plan;
  base::BufferPool* pool = nullptr;
  const base::Clock* clock = nullptr;  ///< for the statistics
  /// Gets the time of every batch made, if it is there; outlives the iterator, its only writer.
  monitoring::Histogram* batch_seconds = nullptr;
};

/// Sums over the batches handed out, and the present queue.
struct BatchFigures {
  std::uint64_t batches = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;        ///< of payloads read
  std::uint64_t skipped = 0;      ///< damaged records left out
  double starved_seconds = 0;     ///< the consumer waited for a batch
  StageTimes stages;              ///< of all batches made, handed out or not
  std::uint64_t queue_depth = 0;  ///< batches ready now
  std::uint64_t queue_limit = 0;  ///< ready or being made, at most
};

/// The batches of a plan, made ahead by threads. See the top of the file.
class BatchIterator {
 public:
  /// A batch, nothing behind the last step, or an error.
  using Item = base::Result<std::optional<Batch>>;

  /// Starts the threads at `first_step`. invalid_argument for options out of range,
  /// resource_exhausted when threads cannot be had.
  static base::Result<std::unique_ptr<BatchIterator>> create(BatchSources sources,
                                                             SampleOptions samples,
                                                             PrefetchOptions prefetch,
                                                             std::uint64_t first_step = 0);
  ~BatchIterator();
  BatchIterator(const BatchIterator&) = delete;
  BatchIterator& operator=(const BatchIterator&) = delete;

  /// The batch of position(), which moves on by one. A failed batch stays: the same error comes
  /// again until seek(). deadline_exceeded leaves everything as it was. Blocks; not for actors.
  Item next(std::chrono::milliseconds timeout);
  /// Goes on at any step, for resuming and for a new round.
  void seek(std::uint64_t step);
  /// The step that next() gives.
  std::uint64_t position() const;
  BatchFigures stats() const;

 private:
  BatchIterator(BatchSources sources, SampleOptions samples, PrefetchOptions prefetch,
                std::uint64_t first_step);
  void start(std::uint32_t threads);
  void run();
  bool claim(std::uint64_t& step, std::uint64_t& generation) TROUPE_EXCLUDES(mutex_);
  void note_times(const StageTimes& times) TROUPE_EXCLUDES(mutex_);
  void publish(std::uint64_t step, std::uint64_t generation, base::Result<Batch> batch)
      TROUPE_EXCLUDES(mutex_);
  bool item_ready() const TROUPE_REQUIRES(mutex_);
  Item take_item() TROUPE_REQUIRES(mutex_);
  std::optional<base::Result<Batch>>& slot(std::uint64_t step) TROUPE_REQUIRES(mutex_) {
    return slots_[step % slots_.size()];
  }
  void add_starved(std::int64_t since_ns) TROUPE_REQUIRES(mutex_);

  const BatchSources sources_;
  const SampleOptions samples_;
  std::vector<std::thread> threads_;

  mutable base::Mutex mutex_;
  base::CondVar work_;   // a step may be claimed, or stop
  base::CondVar ready_;  // the batch of position() came
  std::vector<std::optional<base::Result<Batch>>> slots_
      TROUPE_GUARDED_BY(mutex_);  // by step, a ring
  std::uint64_t position_ TROUPE_GUARDED_BY(mutex_);
  std::uint64_t next_claim_ TROUPE_GUARDED_BY(mutex_);
  std::uint64_t generation_ TROUPE_GUARDED_BY(mutex_) =
      0;  // counts seeks; older batches are dropped
  bool stopping_ TROUPE_GUARDED_BY(mutex_) = false;
  BatchFigures stats_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::data
