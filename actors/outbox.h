// SPDX-License-Identifier: Apache-2.0
// Outbox: messages that wait for an answer and are sent again, with pauses that double, until it
// comes. Silence has no end of its own: the job's stall limit is the deadline. One owner, one
// thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "base/buffer.h"
#include "base/limits.h"
#include "schemas/messages.h"

namespace troupe::actors {

/// A message to be repeated; its payload is held until the answer has come.
struct Letter {
  schemas::ActorId to;
  schemas::Message message;
  base::Buffer payload;
};

/// True when this answer to a push ends its letter; after the others it stays and is repeated.
constexpr bool settles(schemas::PushResult result) {
  return result == schemas::PushResult::taken || result == schemas::PushResult::duplicate;
}

/// Letters by a name that their answers repeat.
template <typename Key>
class Outbox {
 public:
  explicit Outbox(const base::Limits& limits)
      : first_ms_(limits.retry_first_ms), most_ms_(limits.retry_most_ms) {}

  /// Keeps a letter that has just been sent; false when one of this name waits already.
  bool keep(const Key& key, Letter letter, std::uint64_t now_ms) {
    return waiting_.try_emplace(key, Waiting{std::move(letter), now_ms + first_ms_, first_ms_})
        .second;
  }
  bool contains(const Key& key) const { return waiting_.count(key) != 0; }
  /// Its answer has come; false when it had before.
  bool answered(const Key& key) { return waiting_.erase(key) != 0; }
  /// Among the letters from `first` on, as long as `inside` holds for their names, drops those
  /// that are `gone`.
  template <typename Inside, typename Gone>
  void erase_from(const Key& first, Inside inside, Gone gone) {
    auto at = waiting_.lower_bound(first);
    while (at != waiting_.end() && inside(at->first)) {
      at = gone(at->first) ? waiting_.erase(at) : std::next(at);
    }
  }
  /// Calls `send(letter)` for each letter whose pause is over.
  template <typename Function>
  void resend(std::uint64_t now_ms, Function send) {
    for (auto& [key, waiting] : waiting_) {
      if (now_ms < waiting.due_ms) continue;
      waiting.pause_ms = std::min(waiting.pause_ms * 2, most_ms_);
      waiting.due_ms = now_ms + waiting.pause_ms;
      send(waiting.letter);
    }
  }
  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    Letter letter;
    std::uint64_t due_ms = 0;
    std::uint64_t pause_ms = 0;
  };
  std::uint64_t first_ms_;
  std::uint64_t most_ms_;
  std::map<Key, Waiting> waiting_;
};

}  // namespace troupe::actors
