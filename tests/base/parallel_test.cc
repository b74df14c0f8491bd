// SPDX-License-Identifier: Apache-2.0
// Teams of threads: a thread leads the team that it asks for, whatever the variables of OpenMP say,
// and has its own settings afterwards.
#include "base/parallel.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "tests/support/catch.h"

namespace troupe::base {
namespace {

/// How many threads share as many chunks as `team` has members.
std::size_t members_of_team(int team) {
  Mutex mutex;
  std::set<std::thread::id> members;
  parallel_chunks(team, team, [&](std::int64_t) {
    const MutexLock lock(mutex);
    members.insert(std::this_thread::get_id());
  });
  return members.size();
}

/// Whether a thread can lead so many. LLVM's runtime keeps to OMP_THREAD_LIMIT.
bool possible(int team) {
#if defined(__clang__)
  const char* limit = std::getenv("OMP_THREAD_LIMIT");
  return limit == nullptr || std::stoi(limit) >= team;
#else
  return team > 0;
#endif
}

/// Within lead_team: who cannot lead `team` knows it, who can has them all.
void check_team(int team) {
  CHECK(thread_team() == (possible(team) ? team : 0));
  if (possible(team)) CHECK(members_of_team(team) == static_cast<std::size_t>(team));
}

void check_teams() {
  const int before = thread_team();
  const std::size_t members_before = members_of_team(3);
  for (const int team : {1, 2, 5}) {
    int led = 0;
    lead_team(team, [&] {
      check_team(team);
      lead_team(2, [] { check_team(2); });
      check_team(team);
      ++led;
    });
    CHECK(led == 1);
  }
  CHECK(thread_team() == before);
  // The load decides how many a dynamic team has.
  if (std::getenv("OMP_DYNAMIC") == nullptr) CHECK(members_of_team(3) == members_before);
}

TEST_CASE("a thread leads the team it asks for and has its settings back", "[parallel][team]") {
  check_teams();
  std::thread(check_teams).join();
}

TEST_CASE("what OMP_* say does not count while a thread leads a team", "[parallel]") {
  std::array<char, PATH_MAX> self{};
  REQUIRE(readlink("/proc/self/exe", self.data(), self.size() - 1) > 0);
  for (const char* variables :
       {"OMP_THREAD_LIMIT=1", "OMP_THREAD_LIMIT=2", "OMP_MAX_ACTIVE_LEVELS=0", "OMP_DYNAMIC=true",
        "OMP_NUM_THREADS=1", "OMP_NUM_THREADS=7", "OMP_NESTED=true",
        "OMP_THREAD_LIMIT=1 OMP_MAX_ACTIVE_LEVELS=0 OMP_DYNAMIC=true OMP_NUM_THREADS=3"}) {
    INFO(variables);
    CHECK(std::system((std::string(variables) + " " + self.data() + " '[team]' >&2").c_str()) == 0);
  }
}

TEST_CASE("room for threads is tried, not guessed", "[parallel]") {
  CHECK(check_room_for_threads(8).ok());
}

}  // namespace
}  // namespace troupe::base
