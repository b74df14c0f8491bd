// SPDX-License-Identifier: Apache-2.0
// ReadyQueue: operations that may run, highest priority first, oldest first among equals. The
// common priority 0 is a plain list; others pay for a heap. Guarded by the core's mutex.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "engine/state.h"

namespace troupe::engine {

/// The queue of one lane.
class ReadyQueue {
 public:
  /// Below all priorities.
  static constexpr int kNoPriority = std::numeric_limits<int>::min();

  void push(OperationState* operation) {
    ++size_;
    if (operation->priority == 0) {
      plain_.append(operation);
      return;
    }
    heap_.push_back(operation);
    std::push_heap(heap_.begin(), heap_.end(), runs_later);
  }

  /// Behind all that were appended, whatever its priority: for queues that are filled by this
  /// alone.
  void append(OperationState* operation) {
    ++size_;
    plain_.append(operation);
  }

  /// Null when empty.
  OperationState* pop() {
    if (size_ == 0) return nullptr;
    --size_;
    if (heap_.empty() || (heap_.front()->priority < 0 && !plain_.empty())) return plain_.take();
    std::pop_heap(heap_.begin(), heap_.end(), runs_later);
    OperationState* const operation = heap_.back();
    heap_.pop_back();
    return operation;
  }

  /// Of the operation that pop() would give; kNoPriority when empty.
  int priority() const {
    if (size_ == 0) return kNoPriority;
    return heap_.empty() || (heap_.front()->priority < 0 && !plain_.empty())
               ? 0
               : heap_.front()->priority;
  }

  std::size_t size() const { return size_; }

 private:
  static bool runs_later(const OperationState* a, const OperationState* b) {
    return a->priority != b->priority ? a->priority < b->priority : a->serial > b->serial;
  }

  OperationList plain_;
  std::vector<OperationState*> heap_;
  std::size_t size_ = 0;
};

}  // namespace troupe::engine
