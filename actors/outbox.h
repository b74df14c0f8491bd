// SPDX-License-Identifier: Apache-2.0
// Outbox: messages that wait for an answer. While a link is up nothing is sent twice: a link
// delivers what it has taken exactly once, and a message may be a megabyte. It is sent again when
// something has happened: its receiver could not take it yet (not_ready) or has never had it
// (unknown), a new view holds, a link was resumed. Time alone makes a question of it, which is
// small. Silence has no end of its own: the job's stall limit is the deadline. One owner, one
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

/// A message that wants an answer; its payload is held until that has come.
struct Letter {
  schemas::ActorId to;
  schemas::Message message;
  base::Buffer payload;
};

/// True when this answer to a push ends its letter; after the others it stays and goes again.
constexpr bool settles(schemas::PushResult result) {
  return result == schemas::PushResult::taken || result == schemas::PushResult::duplicate;
}

/// Letters by a name that their answers repeat.
template <typename Key>
class Outbox {
 public:
  explicit Outbox(const base::Limits& limits)
      : first_ms_(limits.retry_first_ms),
        most_ms_(limits.retry_most_ms),
        ask_ms_(limits.letter_ask_ms) {}

  /// Keeps a letter that has just been sent; false when one of this name waits already.
  bool keep(const Key& key, Letter letter, std::uint64_t now_ms) {
    const auto [kept, is_new] =
        waiting_.try_emplace(key, Waiting{std::move(letter), now_ms + ask_ms_});
    note(kept->second);
    return is_new;
  }
  bool contains(const Key& key) const { return waiting_.count(key) != 0; }
  /// Its answer has come; false when it had before.
  bool answered(const Key& key) { return waiting_.erase(key) != 0; }
  /// Its receiver could not take it yet: it goes again after a pause, which doubles.
  void not_ready(const Key& key, std::uint64_t now_ms) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    Waiting& waiting = found->second;
    waiting.pause_ms = waiting.pause_ms == 0 ? first_ms_ : std::min(waiting.pause_ms * 2, most_ms_);
    waiting.due_ms = now_ms + waiting.pause_ms;
    waiting.goes_again = true;
    note(waiting);
  }
  /// Its receiver has never had it: calls `send(letter)`, unless it has been answered, or sent
  /// again since it was asked about.
  template <typename Function>
  void unknown(const Key& key, std::uint64_t now_ms, Function send) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end() || found->second.questions == 0) return;
    found->second.sent(now_ms + ask_ms_);
    note(found->second);
    send(found->second.letter);
  }
  /// Among the letters from `first` on, as long as `inside` holds for their names, drops those
  /// that are `gone`.
  template <typename Inside, typename Gone>
  void erase_from(const Key& first, Inside inside, Gone gone) {
    auto at = waiting_.lower_bound(first);
    while (at != waiting_.end() && inside(at->first)) {
      at = gone(at->first) ? waiting_.erase(at) : std::next(at);
    }
  }
  /// Time has passed: calls `send(letter)` for each letter whose pause is over, and `ask(letter)`
  /// for each that has been unanswered for long. The pauses between questions about one letter
  /// double: on a full link they would stand in front of what they ask about.
  template <typename Send, typename Ask>
  void attend(std::uint64_t now_ms, Send send, Ask ask) {
    if (now_ms < next_ms_) return;  // there may be a letter for each slice
    next_ms_ = kNever;
    for (auto& [key, waiting] : waiting_) {
      if (now_ms >= waiting.due_ms) {
        if (waiting.goes_again) {
          waiting.sent(now_ms + ask_ms_);
          send(waiting.letter);
        } else {
          waiting.asked(now_ms, ask_ms_);
          ask(waiting.letter);
        }
      }
      note(waiting);
    }
  }
  /// Calls `ask(letter)` for each letter to `to`.
  template <typename Function>
  void ask_about(const schemas::ActorId& to, std::uint64_t now_ms, Function ask) {
    for (auto& [key, waiting] : waiting_) {
      if (waiting.letter.to != to) continue;
      waiting.questions = 0;  // something has happened
      waiting.asked(now_ms, ask_ms_);
      note(waiting);
      ask(waiting.letter);
    }
  }
  /// Calls `send(letter)` for each letter.
  template <typename Function>
  void send_again(std::uint64_t now_ms, Function send) {
    for (auto& [key, waiting] : waiting_) {
      waiting.sent(now_ms + ask_ms_);
      note(waiting);
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
    bool goes_again = false;      // when due; else it is asked about
    std::uint32_t questions = 0;  // since it was sent last

    void sent(std::uint64_t ask_at_ms) {
      due_ms = ask_at_ms;
      goes_again = false;
      questions = 0;
    }
    void asked(std::uint64_t now_ms, std::uint64_t ask_ms) {
      constexpr std::uint32_t kDoublingsMost = 3;
      due_ms = now_ms + (ask_ms << std::min(questions, kDoublingsMost));
      goes_again = false;
      ++questions;
    }
  };
  static constexpr std::uint64_t kNever = UINT64_MAX;

  void note(const Waiting& waiting) { next_ms_ = std::min(next_ms_, waiting.due_ms); }

  std::uint64_t first_ms_;
  std::uint64_t most_ms_;
  std::uint64_t ask_ms_;
  std::uint64_t next_ms_ = kNever;  // no letter is due before
  std::map<Key, Waiting> waiting_;
};

}  // namespace troupe::actors
