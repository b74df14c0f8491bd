// SPDX-License-Identifier: Apache-2.0
// OpenMP teams, or plain threads where the race detector must see every hand-over.
#include "base/parallel.h"

#include <algorithm>
#include <exception>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

#if !defined(__SANITIZE_THREAD__)
#include <omp.h>
#endif

namespace troupe::base {

namespace {

/// No exception may leave a member of a team: the first is kept and passed on by the caller.
class FirstException {
 public:
  void call(FunctionRef<void(std::int64_t)> f, std::int64_t chunk) noexcept {
    try {
      f(chunk);
    } catch (...) {
      const MutexLock lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  /// By the thread that the team has come back to.
  void pass_on() {
    const MutexLock lock(mutex_);
    if (first_) std::rethrow_exception(first_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr first_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace

#if defined(__SANITIZE_THREAD__)

namespace {
thread_local int this_thread_team = 1;
}

void parallel_chunks(int team, std::int64_t chunks, FunctionRef<void(std::int64_t)> f) {
  FirstException exception;
  std::vector<std::thread> helpers;
  auto share = [&](int member) {
    for (std::int64_t chunk = member; chunk < chunks; chunk += team) exception.call(f, chunk);
  };
  for (int member = 1; member < team; ++member) helpers.emplace_back(share, member);
  share(0);
  for (std::thread& helper : helpers) helper.join();
  exception.pass_on();
}

void lead_team(int team, FunctionRef<void()> body) {
  const int before = std::exchange(this_thread_team, team);
  body();
  this_thread_team = before;
}
int thread_team() {
  return this_thread_team;
}
bool teams_stay() {
  return true;
}

#else

void parallel_chunks(int team, std::int64_t chunks, FunctionRef<void(std::int64_t)> f) {
  if (team <= 1 || chunks <= 1) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) f(chunk);
    return;
  }
  FirstException exception;
#pragma omp parallel num_threads(team)
  {
    // Split by hand: for a loop of its own LLVM's runtime asks for memory each time.
    const std::int64_t members = omp_get_num_threads(), member = omp_get_thread_num();
    const std::int64_t end = chunks * (member + 1) / members;
    for (std::int64_t chunk = chunks * member / members; chunk < end; ++chunk) {
      exception.call(f, chunk);
    }
  }
  exception.pass_on();
}

namespace {

#if defined(KMP_VERSION_MAJOR)
constexpr bool kLlvm = true;  // LLVM's runtime, clang's
#else
constexpr bool kLlvm = false;
#endif

/// The calling thread's settings that decide how many threads a parallel region gets; restored at
/// the end.
class TeamSettings {
 public:
  TeamSettings() = default;
  TeamSettings(const TeamSettings&) = delete;
  TeamSettings& operator=(const TeamSettings&) = delete;
  ~TeamSettings() {
    omp_set_dynamic(dynamic_);
    omp_set_num_threads(threads_);
    omp_set_max_active_levels(levels_);
  }

 private:
  const int dynamic_ = omp_get_dynamic();
  const int threads_ = omp_get_max_threads();
  const int levels_ = omp_get_max_active_levels();
};

}  // namespace

void lead_team(int team, FunctionRef<void()> body) {
  const TeamSettings before;
  omp_set_dynamic(0);
  omp_set_num_threads(team);
  omp_set_max_active_levels(std::max(omp_get_max_active_levels(), 1));
  if (kLlvm || omp_get_thread_limit() >= team || omp_in_parallel() != 0) {
    body();
    return;
  }
  // No call sets the limit; a region of one team, which this thread leads, has a limit of its own.
  // LLVM's runtime tells a region its own limit and gives it no more threads than before.
#pragma omp teams num_teams(1) thread_limit(team)
  body();
}

bool teams_stay() {
  return !kLlvm;
}

int thread_team() {
  const int team = omp_get_max_threads();
  const bool usable = omp_get_dynamic() == 0 && omp_in_parallel() == 0 &&
                      omp_get_max_active_levels() > 0 && omp_get_thread_limit() >= team;
  return usable ? team : 0;
}

#endif

Status check_room_for_threads(std::size_t count) {
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(count);
  Status status;
  try {
    while (threads.size() < count) threads.emplace_back([open] { open.wait(); });
  } catch (const std::system_error& fault) {
    status = error(Errc::resource_exhausted, "{} threads are needed, the system gives {}: {}",
                   count, threads.size(), fault.what());
  }
  gate.set_value();
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace troupe::base
