// SPDX-License-Identifier: Apache-2.0
// ReadyQueue: operations that may run, highest priority first, oldest first among equals. The
// common priority 0 is a plain list; others pay for a heap. Guarded by the core's mutex.
#pragma once

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
    } else {
      push_to_heap(operation);
    }
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
    return plain_is_next() ? plain_.take() : pop_of_heap();
  }

  /// Of the operation that pop() would give; kNoPriority when empty.
  int priority() const {
    if (size_ == 0) return kNoPriority;
    return plain_is_next() ? 0 : heap_.front()->priority;
  }

  std::size_t size() const { return size_; }

 private:
  /// When the queue is not empty.
  bool plain_is_next() const {
    return heap_.empty() || (heap_.front()->priority < 0 && !plain_.empty());
  }
  void push_to_heap(OperationState* operation);
  OperationState* pop_of_heap();

  OperationList plain_;
  std::vector<OperationState*> heap_;
  std::size_t size_ = 0;
};

}  // namespace troupe::engine
