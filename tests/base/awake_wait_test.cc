// SPDX-License-Identifier: Apache-2.0
// Waits whose limit is time in which the process ran.
#include "base/awake_wait.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

using namespace std::chrono_literals;

/// A process that waits so long for nothing, and then ends.
pid_t start_waiting(std::chrono::milliseconds limit) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  Mutex mutex;
  CondVar changed;
  mutex.lock();
  AwakeWait wait(limit);
  while (wait.once(changed, mutex)) {
  }
  mutex.unlock();
  ::_exit(0);
}

bool has_ended(pid_t child) {
  int how = 0;
  return ::waitpid(child, &how, WNOHANG) == child;
}

TEST_CASE("a wait ends with its limit, or when the condition holds", "[awake_wait]") {
  Mutex mutex;
  CondVar changed;
  const MutexLock lock(mutex);
  AwakeWait wait(20ms);
  int looks = 0;
  while (wait.once(changed, mutex)) ++looks;
  CHECK(looks > 0);
  CHECK_FALSE(wait.once(changed, mutex));
  CHECK_FALSE(AwakeWait(0ms).once(changed, mutex));
}

TEST_CASE("a process that stands still for longer than a wait's limit waits on", "[awake_wait]") {
  const pid_t child = start_waiting(4s);
  REQUIRE(child > 0);
  std::this_thread::sleep_for(100ms);
  REQUIRE(::kill(child, SIGSTOP) == 0);
  std::this_thread::sleep_for(5s);
  REQUIRE(::kill(child, SIGCONT) == 0);
  std::this_thread::sleep_for(200ms);
  CHECK_FALSE(has_ended(child));
  ::kill(child, SIGKILL);
  int how = 0;
  ::waitpid(child, &how, 0);
}

}  // namespace
}  // namespace troupe::base
