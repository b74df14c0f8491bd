// SPDX-License-Identifier: Apache-2.0
// Prefetching: threads claim steps in order, make them apart, and put them into a ring by step.
#include "data/batch_iterator.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/awake_wait.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::MutexLock;
using base::Result;
using base::Status;

namespace {

Status check_prefetch(const PrefetchOptions& options) {
  if (options.threads == 0 || options.threads > kPrefetchThreadsMax) {
    return error(Errc::invalid_argument, "data.prefetch_threads is {}, allowed are 1 to {}",
                 options.threads, kPrefetchThreadsMax);
  }
  if (options.batches == 0 || options.batches > kPrefetchBatchesMax) {
    return error(Errc::invalid_argument, "data.prefetch_batches is {}, allowed are 1 to {}",
                 options.batches, kPrefetchBatchesMax);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<BatchIterator>> BatchIterator::create(BatchSources sources,
                                                             SampleOptions samples,
                                                             PrefetchOptions prefetch,
                                                             std::uint64_t first_step) {
  TROUPE_TRY(check_options(samples));
  TROUPE_TRY(check_prefetch(prefetch));
  std::unique_ptr<BatchIterator> iterator(
      new BatchIterator(std::move(sources), std::move(samples), prefetch, first_step));
  try {
    iterator->start(prefetch.threads);
  } catch (const std::system_error& failure) {
    return error(Errc::resource_exhausted, "cannot start {} prefetch threads: {}", prefetch.threads,
                 failure.what());
  }
  return iterator;
}

BatchIterator::BatchIterator(BatchSources sources, SampleOptions samples, PrefetchOptions prefetch,
                             std::uint64_t first_step)
    : sources_(std::move(sources)),
      samples_(std::move(samples)),
      slots_(prefetch.batches),
      position_(first_step),
      next_claim_(first_step) {}

BatchIterator::~BatchIterator() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BatchIterator::start(std::uint32_t threads) {
  threads_.reserve(threads);
  for (std::uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void BatchIterator::run() {
  BatchMaker maker(sources_.dataset, samples_, *sources_.pool, sources_.clock);
  std::vector<std::uint64_t> records;
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  while (claim(step, generation)) {
    sources_.plan->records(step, records);
    Result<Batch> batch = maker.make({step, sources_.plan->epoch(step), records});
    note_times(maker.times());
    publish(step, generation, std::move(batch));
  }
}

void BatchIterator::note_times(const StageTimes& times) {
  const MutexLock lock(mutex_);
  stats_.stages.read_ns += times.read_ns;
  stats_.stages.decode_ns += times.decode_ns;
  stats_.stages.total_ns += times.total_ns;
  if (sources_.batch_seconds == nullptr) return;
  sources_.batch_seconds->observe(static_cast<double>(times.total_ns) * 1e-9);
}

bool BatchIterator::claim(std::uint64_t& step, std::uint64_t& generation) {
  const MutexLock lock(mutex_);
  for (;;) {
    if (stopping_) return false;
    const std::uint64_t steps = sources_.plan->steps();
    if (next_claim_ < steps && next_claim_ - position_ < slots_.size()) break;
    work_.wait(mutex_);
  }
  step = next_claim_++;
  generation = generation_;
  return true;
}

void BatchIterator::publish(std::uint64_t step, std::uint64_t generation, Result<Batch> batch) {
  {
    const MutexLock lock(mutex_);
    if (generation != generation_) return;
    slot(step).emplace(std::move(batch));
    ++stats_.queue_depth;
    if (step != position_) return;
  }
  ready_.notify_all();
}

bool BatchIterator::item_ready() const {
  return position_ >= sources_.plan->steps() || slots_[position_ % slots_.size()].has_value();
}

BatchIterator::Item BatchIterator::take_item() {
  if (position_ >= sources_.plan->steps()) return std::optional<Batch>();
  std::optional<Result<Batch>>& made = slot(position_);
  if (!made->ok()) return made->status();
  Item item(std::optional<Batch>(std::move(*made).value()));
  made.reset();
  ++position_;
  const Batch& batch = **item;
  --stats_.queue_depth;
  ++stats_.batches;
  stats_.records += batch.count();
  stats_.bytes += batch.bytes;
  stats_.skipped += batch.skipped;
  return item;
}

void BatchIterator::add_starved(std::int64_t since_ns) {
  stats_.starved_seconds += static_cast<double>(sources_.clock->now_ns() - since_ns) * 1e-9;
}

BatchIterator::Item BatchIterator::next(std::chrono::milliseconds timeout) {
  base::AwakeWait wait(timeout);
  Item item = std::optional<Batch>();
  {
    const MutexLock lock(mutex_);
    if (!item_ready()) {
      const std::int64_t since_ns = sources_.clock->now_ns();
      while (!item_ready() && wait.once(ready_, mutex_)) {
      }
      add_starved(since_ns);
      if (!item_ready()) {
        return error(Errc::deadline_exceeded, "{}: the batch of step {} was not ready after {} ms",
                     sources_.dataset->path().string(), position_, timeout.count());
      }
    }
    item = take_item();
  }
  work_.notify_all();
  return item;
}

void BatchIterator::seek(std::uint64_t step) {
  {
    const MutexLock lock(mutex_);
    ++generation_;
    position_ = step;
    next_claim_ = step;
    for (auto& made : slots_) made.reset();
    stats_.queue_depth = 0;
  }
  work_.notify_all();
}

std::uint64_t BatchIterator::position() const {
  const MutexLock lock(mutex_);
  return position_;
}

BatchFigures BatchIterator::stats() const {
  const MutexLock lock(mutex_);
  BatchFigures stats = stats_;
  stats.queue_limit = slots_.size();
  return stats;
}

}  // namespace troupe::data
