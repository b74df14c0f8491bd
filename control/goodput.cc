// SPDX-License-Identifier: Apache-2.0
// The arithmetic of goodput.
#include "control/goodput.h"

#include <algorithm>

namespace troupe::control {

std::optional<double> HeldTime::goodput() const {
  if (held_ms == 0) return std::nullopt;
  return static_cast<double>(counted_ms) / static_cast<double>(held_ms);
}

void Goodput::placed(std::uint64_t now_ms) {
  placed_ms_ = trains_ms_ = stepped_ms_ = now_ms;
}

void Goodput::trains(std::uint64_t step, std::uint64_t now_ms) {
  start_ = step_ = checkpoint_ = step;
  trains_ms_ = stepped_ms_ = now_ms;
}

void Goodput::stepped(std::uint64_t step, std::uint64_t now_ms) {
  if (step <= step_) return;
  step_ = step;
  stepped_ms_ = now_ms;
}

void Goodput::checkpointed(std::uint64_t step) {
  checkpoint_ = std::max(checkpoint_, step);
}

void Goodput::ended(bool done, std::uint64_t now_ms) {
  HeldTime all = time(now_ms);
  if (!done && step_ > start_) {
    const std::uint64_t kept = std::min(checkpoint_, step_) - start_;
    all.counted_ms =
        static_cast<std::uint64_t>(static_cast<double>(all.counted_ms) * static_cast<double>(kept) /
                                   static_cast<double>(step_ - start_));
  }
  end_ = all;
}

HeldTime Goodput::time(std::uint64_t now_ms) const {
  if (end_) return *end_;
  return {now_ms - placed_ms_, stepped_ms_ - trains_ms_};
}

}  // namespace troupe::control
