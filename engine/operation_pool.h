// SPDX-License-Identifier: Apache-2.0
// OperationPool: operations that are free. Pushers take them one by one; finished ones come back in
// batches, so that the two sides rarely touch the same cache line, and a pusher can ask ahead for
// the lines that it will fill.
// Private to this folder.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/state.h"

namespace troupe::engine {

/// Owns all operations that are pushed one by one. One thread at a time takes, one at a time gives.
class OperationPool {
 public:
  /// A free operation, to be filled.
  OperationState* take() {
    if (taking_ == nullptr || taking_->count == 0) refill();
    Batch& batch = *taking_;
    --batch.count;
    if (batch.count >= kAhead) ask_for(batch.items[batch.count - kAhead]);
    return batch.items[batch.count];
  }

  /// A finished operation without function.
  void give(OperationState* operation) {
    if (giving_ == nullptr) {
      giving_ = pop(empty_);
      if (giving_ == nullptr) giving_ = new Batch;
    }
    giving_->items[giving_->count++] = operation;
    if (giving_->count == kBatch) push(full_, std::exchange(giving_, nullptr));
  }

  OperationPool() = default;
  OperationPool(const OperationPool&) = delete;
  OperationPool& operator=(const OperationPool&) = delete;
  ~OperationPool() {
    delete taking_;
    delete giving_;
    while (Batch* batch = pop(full_)) delete batch;
    while (Batch* batch = pop(empty_)) delete batch;
  }

 private:
  static constexpr std::size_t kBatch = 32;
  static constexpr std::size_t kAhead = 8;

  static void ask_for(const OperationState* operation) {
    __builtin_prefetch(operation, 1);
    __builtin_prefetch(&operation->function, 1);
    __builtin_prefetch(&operation->use_count, 1);
  }

  /// Free operations.
  struct Batch {
    std::size_t count = 0;
    std::array<OperationState*, kBatch> items{};
    Batch* next = nullptr;
  };
  /// Batches on their way to the other side, which takes the newest first: its operations are the
  /// likeliest to be in a cache, and no more of them go round than are pending at one time.
  struct alignas(64) Way {
    std::atomic<Batch*> newest{nullptr};
  };

  static void push(Way& way, Batch* batch) {
    batch->next = way.newest.load(std::memory_order_relaxed);
    while (!way.newest.compare_exchange_weak(batch->next, batch, std::memory_order_release,
                                             std::memory_order_relaxed)) {
    }
  }
  // One thread at a time pops, so the newest batch is not taken away between the two looks.
  static Batch* pop(Way& way) {
    Batch* batch = way.newest.load(std::memory_order_acquire);
    while (batch != nullptr &&
           !way.newest.compare_exchange_weak(batch, batch->next, std::memory_order_acquire,
                                             std::memory_order_acquire)) {
    }
    return batch;
  }

  void refill() {
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

  Batch* taking_ = nullptr;
  std::vector<std::unique_ptr<OperationState[]>> chunks_;
  Way full_;   // to who takes
  Way empty_;  // to who gives
  alignas(64) Batch* giving_ = nullptr;
};

}  // namespace troupe::engine
