// SPDX-License-Identifier: Apache-2.0
// AwakeWait: waiting, on a condition or by looking again, for so long as this process runs. A
// deadline that lies at a time of the clock passes while everything stands still (SIGSTOP, a paused
// virtual machine), and whoever was to keep it could not. Here time is counted in looks: a look
// that comes late counts as if it had come in time.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/mutex.h"

namespace troupe::base {

/// See the top of the file. One thread, and one wait:
///   AwakeWait wait(limit);
///   while (!ready && wait.once(changed, mutex)) {}
class AwakeWait {
 public:
  explicit AwakeWait(std::chrono::milliseconds limit) : left_(limit) {}

  /// Waits until `changed` is notified, or for one look. False, without waiting: nothing of the
  /// limit is left.
  bool once(CondVar& changed, Mutex& mutex) TROUPE_REQUIRES(mutex) {
    constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(500);
    if (left_.count() <= 0) return false;
    const Steady::time_point begin = Steady::now();
    const std::chrono::nanoseconds most = std::min(left_, kLook);
    changed.wait_for(mutex, most);
    count(begin, most);
    return true;
  }
  /// Sleeps for `look` at most. False, without sleeping: nothing of the limit is left.
  bool sleep(std::chrono::milliseconds look) {
    if (left_.count() <= 0) return false;
    const Steady::time_point begin = Steady::now();
    const std::chrono::nanoseconds most = std::min<std::chrono::nanoseconds>(left_, look);
    std::this_thread::sleep_for(most);
    count(begin, most);
    return true;
  }

 private:
  using Steady = std::chrono::steady_clock;

  void count(Steady::time_point begin, std::chrono::nanoseconds most) {
    left_ -= std::min<std::chrono::nanoseconds>(Steady::now() - begin, most);
  }

  std::chrono::nanoseconds left_;
};

}  // namespace troupe::base
