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
    if (giving_ == nullptr) start_batch();
    giving_->items[giving_->count++] = operation;
    if (giving_->count == kBatch) push(full_, std::exchange(giving_, nullptr));
  }

  OperationPool() = default;
  OperationPool(const OperationPool&) = delete;
  OperationPool& operator=(const OperationPool&) = delete;
  ~OperationPool();

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

  static void push(Way& way, Batch* batch);
  /// One thread at a time pops, so the newest batch is not taken away between two looks.
  static Batch* pop(Way& way);
  void refill();
  void start_batch();

  Batch* taking_ = nullptr;
  std::vector<std::unique_ptr<OperationState[]>> chunks_;
  Way full_;   // to who takes
  Way empty_;  // to who gives
  alignas(64) Batch* giving_ = nullptr;
};

}  // namespace troupe::engine
