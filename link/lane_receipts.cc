// SPDX-License-Identifier: Apache-2.0
// Counting what has been let go, in the order of the lane.
#include "link/lane_receipts.h"

#include <utility>

#include "base/check.h"

namespace troupe::link {

using base::MutexLock;

LaneReceipts::LaneReceipts(std::uint64_t ack_bytes, std::uint64_t ack_frames,
                           std::function<void()> wake)
    : ack_bytes_(ack_bytes), ack_frames_(ack_frames), wake_(std::move(wake)) {}

std::shared_ptr<const void> LaneReceipts::issue(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  held_.push_back({bytes});
  held_bytes_ += bytes;
  const std::uint64_t number = taken_ + held_.size();
  // It points to nothing that anybody reads: only its end counts.
  return {static_cast<const void*>(this),
          [self = shared_from_this(), number](const void*) { self->let_go(number); }};
}

/// Numbers are let go in any order and count in theirs.
void LaneReceipts::let_go(std::uint64_t number) {
  {
    const MutexLock lock(mutex_);
    TROUPE_CHECK(number > taken_ && number - taken_ <= held_.size(), "a receipt ends twice");
    held_[number - taken_ - 1].gone = true;
    while (!held_.empty() && held_.front().gone) {
      held_bytes_ -= held_.front().bytes;
      owed_bytes_ += held_.front().bytes;
      ++owed_frames_;
      ++taken_;
      held_.pop_front();
    }
    if (woken_ || owed_frames_ == 0 || !(hastened_ || due())) return;
    hastened_ = false;
    woken_ = true;
  }
  wake_();
}

bool LaneReceipts::due() const {
  return owed_frames_ >= ack_frames_ || owed_bytes_ >= ack_bytes_;
}

std::uint64_t LaneReceipts::taken() const {
  const MutexLock lock(mutex_);
  return taken_;
}

std::uint64_t LaneReceipts::held_bytes() const {
  const MutexLock lock(mutex_);
  return held_bytes_;
}

bool LaneReceipts::ack_due() const {
  const MutexLock lock(mutex_);
  return due();
}

bool LaneReceipts::owed_or_hasten() {
  const MutexLock lock(mutex_);
  if (owed_frames_ > 0) return true;
  hastened_ = !held_.empty();
  return false;
}

std::uint64_t LaneReceipts::acknowledged() {
  const MutexLock lock(mutex_);
  owed_bytes_ = owed_frames_ = 0;
  woken_ = false;
  return taken_;
}

}  // namespace troupe::link
