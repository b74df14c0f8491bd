// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the dealing and the plans made of it.
#include "data/dealer.h"

#include <algorithm>
#include <limits>

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;

namespace {

constexpr std::uint64_t kU64Max = std::numeric_limits<std::uint64_t>::max();
// Epoch number is the step of a random counter, which has 48 bits.
constexpr std::uint64_t kEpochMax = (std::uint64_t{1} << 48) - 1;
// Two: while one epoch ends, the next one is being prefetched.
constexpr std::size_t kOrdersKept = 2;

// Without (a + b - 1), which may overflow.
std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

class TrainingPlan final : public BatchPlan {
 public:
  TrainingPlan(std::shared_ptr<const EpochOrders> orders, std::uint64_t rank, std::uint64_t steps)
      : orders_(std::move(orders)), rank_(rank), steps_(steps) {}

  std::uint64_t steps() const override { return steps_; }
  std::uint64_t epoch(std::uint64_t step) const override {
    return orders_->dealer().cursor(step).epoch;
  }
  void records(std::uint64_t step, std::vector<std::uint64_t>& out) const override {
    const Cursor at = orders_->dealer().cursor(step);
    const Run run = orders_->dealer().run(at.step, rank_);
    const auto order = orders_->order(at.epoch);
    const auto begin = order->begin() + static_cast<std::ptrdiff_t>(run.begin);
    out.assign(begin, begin + static_cast<std::ptrdiff_t>(run.count));
  }

 private:
  std::shared_ptr<const EpochOrders> orders_;
  std::uint64_t rank_;
  std::uint64_t steps_;
};

class EvaluationPlan final : public BatchPlan {
 public:
  EvaluationPlan(const DealSpec& spec, std::uint64_t rank)
      : spec_(spec), rank_(rank), count_(stride_records(spec.records, spec.ranks, rank)) {}

  std::uint64_t steps() const override { return ceil_divide(count_, spec_.batch); }
  std::uint64_t epoch(std::uint64_t) const override { return 0; }
  void records(std::uint64_t step, std::vector<std::uint64_t>& out) const override {
    out.clear();
    const std::uint64_t begin = step * spec_.batch;
    const std::uint64_t end = begin + std::min(spec_.batch, count_ - begin);
    for (std::uint64_t i = begin; i < end; ++i) out.push_back(rank_ + i * spec_.ranks);
  }

 private:
  DealSpec spec_;
  std::uint64_t rank_;
  std::uint64_t count_;
};

}  // namespace

Result<Dealer> Dealer::create(const DealSpec& spec) {
  if (spec.records == 0) return error(Errc::invalid_argument, "there are no records to deal");
  if (spec.ranks == 0 || spec.batch == 0) {
    return error(Errc::invalid_argument, "cannot deal to {} ranks in batches of {}", spec.ranks,
                 spec.batch);
  }
  if (spec.batch > kU64Max / spec.ranks) {
    return error(Errc::invalid_argument, "{} ranks times a batch of {} overflows", spec.ranks,
                 spec.batch);
  }
  return Dealer(spec);
}

Dealer::Dealer(const DealSpec& spec)
    : spec_(spec),
      steps_per_epoch_(ceil_divide(spec.records, spec.ranks * spec.batch)),
      key_(base::random_key(spec.seed, "data")) {}

std::uint64_t Dealer::step_records(std::uint64_t step) const {
  TROUPE_CHECK(step < steps_per_epoch_, "step behind the end of its epoch");
  const std::uint64_t full = spec_.ranks * spec_.batch;
  return std::min(full, spec_.records - step * full);
}

Run Dealer::run(std::uint64_t step, std::uint64_t rank) const {
  TROUPE_CHECK(rank < spec_.ranks, "rank outside the job");
  const std::uint64_t dealt = step_records(step);
  const std::uint64_t share = dealt / spec_.ranks;
  const std::uint64_t larger = dealt % spec_.ranks;  // the first ranks get one more
  const std::uint64_t first = step * (spec_.ranks * spec_.batch);
  return {first + rank * share + std::min(rank, larger), share + (rank < larger ? 1 : 0)};
}

Cursor Dealer::cursor(std::uint64_t global_step) const {
  return {global_step / steps_per_epoch_, global_step % steps_per_epoch_};
}

std::uint64_t Dealer::global_step(const Cursor& cursor) const {
  return cursor.epoch * steps_per_epoch_ + cursor.step;
}

std::vector<std::uint64_t> Dealer::order(std::uint64_t epoch) const {
  TROUPE_CHECK(epoch <= kEpochMax, "epoch beyond the random counter");
  return base::permutation(key_, epoch, spec_.records);
}

std::uint64_t stride_records(std::uint64_t records, std::uint64_t ranks, std::uint64_t rank) {
  TROUPE_CHECK(rank < ranks, "rank outside the job");
  return records > rank ? (records - rank - 1) / ranks + 1 : 0;
}

std::shared_ptr<const std::vector<std::uint64_t>> EpochOrders::order(std::uint64_t epoch) const {
  // Made under the lock: the other ranks want the same one and would only compute it again.
  const base::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.epoch == epoch) return entry.order;
  }
  auto order = std::make_shared<const std::vector<std::uint64_t>>(dealer_.order(epoch));
  if (entries_.size() == kOrdersKept) entries_.pop_front();
  entries_.push_back({epoch, order});
  return order;
}

std::unique_ptr<BatchPlan> make_training_plan(std::shared_ptr<const EpochOrders> orders,
                                              std::uint64_t rank, std::uint64_t steps) {
  TROUPE_CHECK(rank < orders->dealer().spec().ranks, "rank outside the job");
  return std::make_unique<TrainingPlan>(std::move(orders), rank, steps);
}

std::unique_ptr<BatchPlan> make_evaluation_plan(const DealSpec& spec, std::uint64_t rank) {
  TROUPE_CHECK(spec.batch > 0, "evaluation in batches of 0");
  return std::make_unique<EvaluationPlan>(spec, rank);
}

}  // namespace troupe::data
