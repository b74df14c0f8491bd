// SPDX-License-Identifier: Apache-2.0
// SIGINT, SIGTERM and SIGHUP as a call on a thread of their own, without global state. Make it
// before other threads start: it blocks the signals for the threads made later. A child process
// inherits the block and must lift it before exec.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace troupe::apps {

/// Watches while it lives.
class StopSignals {
 public:
  /// `on_first` is called once, with the first signal; a second signal ends the process at once
  /// with 128 + its number, after `before_end`, which may be empty.
  explicit StopSignals(std::function<void(int signal)> on_first,
                       std::function<void()> before_end = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal; 0: none yet.
  int received() const { return received_.load(); }

 private:
  void watch();

  std::function<void(int)> on_first_;
  std::function<void()> before_end_;
  std::atomic<int> received_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace troupe::apps
