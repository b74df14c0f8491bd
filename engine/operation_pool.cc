// SPDX-License-Identifier: Apache-2.0
// Batches of free operations between those who take and those who give.
#include "engine/operation_pool.h"

namespace troupe::engine {

OperationPool::~OperationPool() {
  delete taking_;
  delete giving_;
  while (Batch* batch = pop(full_)) delete batch;
  while (Batch* batch = pop(empty_)) delete batch;
}

void OperationPool::push(Way& way, Batch* batch) {
  batch->next = way.newest.load(std::memory_order_relaxed);
  while (!way.newest.compare_exchange_weak(batch->next, batch, std::memory_order_release,
                                           std::memory_order_relaxed)) {
  }
}

OperationPool::Batch* OperationPool::pop(Way& way) {
  Batch* batch = way.newest.load(std::memory_order_acquire);
  while (batch != nullptr &&
         !way.newest.compare_exchange_weak(batch, batch->next, std::memory_order_acquire,
                                           std::memory_order_acquire)) {
  }
  return batch;
}

void OperationPool::start_batch() {
  giving_ = pop(empty_);
  if (giving_ == nullptr) giving_ = new Batch;
}

void OperationPool::refill() {
  if (Batch* const batch = pop(full_)) {
    if (taking_ != nullptr) push(empty_, taking_);
    taking_ = batch;
    for (std::size_t i = kBatch - kAhead; i < kBatch; ++i) ask_for(batch->items[i]);
    return;
  }
  if (taking_ == nullptr) taking_ = new Batch;
  chunks_.push_back(std::make_unique<OperationState[]>(kBatch));
  for (std::size_t i = 0; i < kBatch; ++i) taking_->items[i] = &chunks_.back()[i];
  taking_->count = kBatch;
}

}  // namespace troupe::engine
