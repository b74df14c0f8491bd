// SPDX-License-Identifier: Apache-2.0
// The heap of operations that have a priority of their own.
#include "engine/ready_queue.h"

#include <algorithm>

namespace troupe::engine {

namespace {

bool runs_later(const OperationState* a, const OperationState* b) {
  return a->priority != b->priority ? a->priority < b->priority : a->serial > b->serial;
}

}  // namespace

void ReadyQueue::push_to_heap(OperationState* operation) {
  heap_.push_back(operation);
  std::push_heap(heap_.begin(), heap_.end(), runs_later);
}

OperationState* ReadyQueue::pop_of_heap() {
  std::pop_heap(heap_.begin(), heap_.end(), runs_later);
  OperationState* const operation = heap_.back();
  heap_.pop_back();
  return operation;
}

}  // namespace troupe::engine
