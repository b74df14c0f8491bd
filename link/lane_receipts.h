// SPDX-License-Identifier: Apache-2.0
// LaneReceipts: which of the envelopes that a lane has delivered have been let go. A peer's credit
// returns only then, so what lies in mailboxes of this process, or is parked there, is bounded by
// the peer's windows. Any thread.
// Private to this folder.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "base/mutex.h"

namespace troupe::link {

/// See the top of the file. Receipts keep it alive.
class LaneReceipts : public std::enable_shared_from_this<LaneReceipts> {
 public:
  /// `wake`: enough has been let go for an acknowledgement of its own, or anything after
  /// owed_or_hasten(); any thread, not again before the next acknowledged().
  LaneReceipts(std::uint64_t ack_bytes, std::uint64_t ack_frames, std::function<void()> wake);

  /// For the envelope of the next frame, whose number is one more than the last one's; its last
  /// copy's end lets it go.
  std::shared_ptr<const void> issue(std::uint64_t bytes);

  /// All frames up to this number have been let go.
  std::uint64_t taken() const;
  /// Bytes of frames that have been delivered and not acknowledged as taken.
  std::uint64_t held_bytes() const;
  /// True when enough has been let go since the last acknowledgement to send one now.
  bool ack_due() const;
  /// True when anything has been let go since the last acknowledgement. Else the next frame that is
  /// let go wakes. In one step: a frame that is let go in between would wake nobody.
  bool owed_or_hasten();
  /// The peer is told of taken(), which it returns.
  std::uint64_t acknowledged();

 private:
  struct Frame {
    std::uint64_t bytes = 0;
    bool gone = false;
  };
  void let_go(std::uint64_t number);
  bool due() const TROUPE_REQUIRES(mutex_);

  const std::uint64_t ack_bytes_;
  const std::uint64_t ack_frames_;
  const std::function<void()> wake_;
  mutable base::Mutex mutex_;
  std::deque<Frame> held_ TROUPE_GUARDED_BY(mutex_);  // from taken_ + 1 on
  std::uint64_t taken_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t held_bytes_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t owed_bytes_ TROUPE_GUARDED_BY(mutex_) = 0;  // taken since the last acknowledgement
  std::uint64_t owed_frames_ TROUPE_GUARDED_BY(mutex_) = 0;
  bool hastened_ TROUPE_GUARDED_BY(mutex_) = false;
  bool woken_ TROUPE_GUARDED_BY(mutex_) = false;
};

}  // namespace troupe::link
