// SPDX-License-Identifier: Apache-2.0
// Inbox: operations that pushers have left for whoever has the graph's mutex. A ring of pointers:
// one who takes a batch of them asks for all their cache lines at once, where a list would give
// them one by one.
// Private to this folder.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/push_pace.h"
#include "engine/state.h"

namespace troupe::engine {

/// One thread at a time puts, one at a time takes.
class Inbox {
 public:
  /// True when nothing more can be put. For the one who puts.
  bool full() {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ < kSlots) return false;
    head_seen_ = head_.load(std::memory_order_acquire);
    return tail - head_seen_ >= kSlots;
  }
  /// Not when full.
  void put(OperationState* operation) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    slots_[tail % kSlots] = operation;
    tail_.store(tail + 1, std::memory_order_release);
  }

  /// Any thread.
  bool empty() const {
    return tail_.load(std::memory_order_seq_cst) == head_.load(std::memory_order_relaxed);
  }
  /// How many have been put.
  std::uint64_t count() const { return tail_.load(std::memory_order_acquire); }

  /// How many have been taken. For the one who takes: he calls expect() with an end that count()
  /// gave, at() for all from here to this end, in order, and set_taken() behind some or all of
  /// them.
  std::uint64_t taken() const { return head_.load(std::memory_order_relaxed); }
  /// Asks for the first ones; at() asks for those that follow. `with_uses`: what they use, too.
  void expect(std::uint64_t end, bool with_uses) const {
    const std::uint64_t begin = taken();
    for (std::uint64_t i = begin; i < end && i < begin + kAhead; ++i) ask_for(i, with_uses);
  }
  OperationState* at(std::uint64_t place, std::uint64_t end, bool with_uses) const {
    if (place + kAhead < end) ask_for(place + kAhead, with_uses);
    return slots_[place % kSlots];
  }
  void set_taken(std::uint64_t end) { head_.store(end, std::memory_order_release); }

 private:
  static constexpr std::uint64_t kSlots = PushPace::kFarAhead;  // not full before a pause
  static constexpr std::uint64_t kAhead = 8;

  void ask_for(std::uint64_t place, bool with_uses) const {
    const OperationState* operation = slots_[place % kSlots];
    __builtin_prefetch(operation, 1);
    __builtin_prefetch(&operation->function, 1);
    if (with_uses) __builtin_prefetch(&operation->use_count, 1);
  }

  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t head_seen_ = 0;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::array<OperationState*, kSlots> slots_{};
};

}  // namespace troupe::engine
