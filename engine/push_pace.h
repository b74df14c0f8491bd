// SPDX-License-Identifier: Apache-2.0
// PushPace: how far pushers run ahead of the lanes. Far ahead of them a pusher lets the lanes catch
// up first: what the two sides hand to each other then stays in their caches, and on one processor
// the lanes have a turn at all. Beyond the limit it waits. Pure; guarded by the entry mutex.
// Private to this folder.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::engine {

/// Asked before each push; most answers need no look at what the lanes have done.
class PushPace {
 public:
  /// With so many operations pending, replays apart, a pusher is far ahead.
  static constexpr std::uint64_t kFarAhead = 1024;
  /// No more than so many of them are left when the lanes have caught up.
  static constexpr std::uint64_t kCaughtUp = kFarAhead / 2;

  /// The most operations between two pauses.
  static constexpr std::uint64_t kSeldom = 65'536;

  enum class Answer : std::uint8_t {
    go_on,
    give_way,  ///< let the lanes catch up, for a moment at most, then push whatever they did
    wait,      ///< until there is room
  };

  /// `limit`: of pending operations, those of replays included; at least 1.
  explicit PushPace(std::uint64_t limit) : limit_(limit) {}

  /// False: the answer is go_on. `pushed`: how many operations have been, those of replays
  /// included.
  bool look_is_due(std::uint64_t pushed) const { return pushed >= look_at_; }

  /// `pending`: of those pushed; `alone`: of these, not in replays.
  Answer look(std::uint64_t pushed, std::uint64_t pending, std::uint64_t alone) {
    if (pending >= limit_) return Answer::wait;
    const std::uint64_t room = limit_ - pending;
    if (alone < kFarAhead) {
      look_at_ = pushed + std::min(room, kFarAhead - alone);
      return Answer::go_on;
    }
    const bool gives_way = pushed >= rests_until_;
    if (gives_way) {
      rests_until_ = pushed + stride_;
      stride_ = std::min(2 * stride_, kSeldom);
    }
    look_at_ = pushed + std::min(room, rests_until_ - pushed);
    return gives_way ? Answer::give_way : Answer::go_on;
  }

  /// The lanes have, while a pusher gave way. When they do not, the next pause is twice as far
  /// away.
  void caught_up(std::uint64_t pushed) {
    stride_ = kCaughtUp;
    rests_until_ = pushed + stride_;
    look_at_ = std::min(look_at_, rests_until_);
  }

 private:
  const std::uint64_t limit_;
  std::uint64_t look_at_ = 0;
  std::uint64_t rests_until_ = 0;  // nobody gives way before so many are pushed
  std::uint64_t stride_ = kCaughtUp;
};

}  // namespace troupe::engine
