// SPDX-License-Identifier: Apache-2.0
// The dealing of records to ranks: which records rank r scores at step k is a pure function of
// (seed, epoch, step, rank), so it survives kills, resumes and changes of placement. Nothing is
// padded, repeated or dropped. Pure values and functions; any thread, except where said otherwise.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"

namespace troupe::data {

/// The place of a global step.
struct Cursor {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  ///< within the epoch
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

/// Positions [begin, begin + count) in an epoch's order.
struct Run {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

/// What the dealing depends on.
struct DealSpec {
  std::uint64_t records = 0;  ///< of the file
  std::uint64_t ranks = 1;    ///< V, virtual ranks of the job
  std::uint64_t batch = 1;    ///< samples of one rank in a full step
  std::uint64_t seed = 0;
};

/// Training: epoch e's order is the permutation P(seed, e); step k takes the next V * batch
/// records and gives rank r the r-th run; the last step deals the rest as evenly as possible in
/// rank order.
class Dealer {
 public:
  /// invalid_argument when there are no records, ranks or samples in a batch, or their product
  /// overflows.
  static base::Result<Dealer> create(const DealSpec& spec);

  const DealSpec& spec() const { return spec_; }
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Records that all ranks together take at `step` of any epoch.
  std::uint64_t step_records(std::uint64_t step) const;
  /// The positions that `rank` takes at `step` of any epoch; perhaps none at the last step.
  Run run(std::uint64_t step, std::uint64_t rank) const;
  Cursor cursor(std::uint64_t global_step) const;
  std::uint64_t global_step(const Cursor& cursor) const;
  /// Record numbers of an epoch in the order of dealing.
  std::vector<std::uint64_t> order(std::uint64_t epoch) const;

 private:
  explicit Dealer(const DealSpec& spec);

  DealSpec spec_;
  std::uint64_t steps_per_epoch_;
  base::RandomKey key_;
};

/// Evaluation: rank r scores records r, r + V, r + 2V, ... How many those are:
std::uint64_t stride_records(std::uint64_t records, std::uint64_t ranks, std::uint64_t rank);

/// Which records make the batch of a step, as a batch iterator asks for it. Any thread.
class BatchPlan {
 public:
  virtual ~BatchPlan() = default;
  /// Steps [0, steps()) exist.
  virtual std::uint64_t steps() const = 0;
  virtual std::uint64_t epoch(std::uint64_t step) const = 0;
  /// Replaces `out` by the record numbers of a step, in the batch's order.
  virtual void records(std::uint64_t step, std::vector<std::uint64_t>& out) const = 0;
};

/// The orders of the newest epochs, made once and shared by the ranks of a process.
class EpochOrders {
 public:
  explicit EpochOrders(Dealer dealer) : dealer_(std::move(dealer)) {}
  const Dealer& dealer() const { return dealer_; }
  std::shared_ptr<const std::vector<std::uint64_t>> order(std::uint64_t epoch) const;

 private:
  struct Entry {
    std::uint64_t epoch;
    std::shared_ptr<const std::vector<std::uint64_t>> order;
  };

  const Dealer dealer_;
  mutable base::Mutex mutex_;
  mutable std::deque<Entry> entries_ TROUPE_GUARDED_BY(mutex_);
};

/// A rank's training batches by global step, `steps` of them in all.
std::unique_ptr<BatchPlan> make_training_plan(std::shared_ptr<const EpochOrders> orders,
                                              std::uint64_t rank, std::uint64_t steps);
/// A rank's evaluation batches: its stride in file order, cut into batches of spec.batch.
std::unique_ptr<BatchPlan> make_evaluation_plan(const DealSpec& spec, std::uint64_t rank);

}  // namespace troupe::data
