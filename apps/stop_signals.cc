// SPDX-License-Identifier: Apache-2.0
// A thread in sigwaitinfo.
#include "apps/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <utility>

namespace troupe::apps {
namespace {

constexpr int kSignalExit = 128;

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // A blocked signal arrives even where it is ignored: what nohup has turned off stays off.
  struct sigaction hang_up {};
  ::sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

StopSignals::StopSignals(std::function<void(int)> on_first, std::function<void()> before_end)
    : on_first_(std::move(on_first)), before_end_(std::move(before_end)) {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  ended_.store(true);
  ::pthread_kill(thread_.native_handle(), SIGTERM);  // it waits, and looks at ended_ first
  thread_.join();
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void StopSignals::watch() {
  const sigset_t set = stop_set();
  while (true) {
    const int signal = sigwaitinfo(&set, nullptr);
    if (ended_.load()) return;
    if (signal <= 0) continue;
    if (received_.load() != 0) {
      if (before_end_) before_end_();
      _exit(kSignalExit + signal);
    }
    received_.store(signal);
    on_first_(signal);
  }
}

}  // namespace troupe::apps
