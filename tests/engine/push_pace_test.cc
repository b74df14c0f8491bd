// SPDX-License-Identifier: Apache-2.0
// When a pusher goes on, gives way or waits, without an engine.
#include "engine/push_pace.h"

#include <algorithm>
#include <cstdint>

#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

using Answer = PushPace::Answer;
constexpr std::uint64_t kFar = PushPace::kFarAhead;
constexpr std::uint64_t kCaughtUp = PushPace::kCaughtUp;

TEST_CASE("a pusher looks at what is done when it may be far ahead, not before") {
  PushPace pace(65'536);
  REQUIRE(pace.look_is_due(0));
  CHECK(pace.look(0, 0, 0) == Answer::go_on);
  CHECK_FALSE(pace.look_is_due(kFar - 1));
  CHECK(pace.look_is_due(kFar));
  // All but 24 were done meanwhile.
  CHECK(pace.look(kFar, 24, 24) == Answer::go_on);
  CHECK_FALSE(pace.look_is_due(2 * kFar - 25));
  CHECK(pace.look_is_due(2 * kFar - 24));
}

TEST_CASE("a pusher far ahead gives way, again when it may be as far ahead once more") {
  PushPace pace(65'536);
  CHECK(pace.look(kFar, kFar, kFar) == Answer::give_way);
  pace.caught_up(kFar);
  CHECK_FALSE(pace.look_is_due(kFar + kCaughtUp - 1));
  REQUIRE(pace.look_is_due(kFar + kCaughtUp));
  CHECK(pace.look(kFar + kCaughtUp, kFar - 1, kFar - 1) == Answer::go_on);
  REQUIRE(pace.look_is_due(kFar + kCaughtUp + 1));
  CHECK(pace.look(kFar + kCaughtUp + 1, kFar, kFar) == Answer::give_way);
}

/// Pushes until `stop`. The lanes do what they can whenever the pusher pauses: all but `stuck`
/// operations. How often it gave way; it ends at the limit where more than that are stuck.
int ways_given(PushPace& pace, std::uint64_t stop, std::uint64_t stuck, std::uint64_t& pushed) {
  int ways = 0;
  for (std::uint64_t pending = 0; pushed < stop; ++pushed, ++pending) {
    if (!pace.look_is_due(pushed)) continue;
    const Answer answer = pace.look(pushed, pending, pending);
    if (answer == Answer::go_on) continue;
    if (answer == Answer::wait && pending <= stuck) break;
    ways += answer == Answer::give_way ? 1 : 0;
    pending = std::min(pending, stuck);
    if (answer == Answer::give_way && pending <= kCaughtUp) pace.caught_up(pushed);
  }
  return ways;
}

TEST_CASE("lanes that stand still are given way a few times only, up to the limit") {
  constexpr std::uint64_t kLimit = 65'536;
  PushPace pace(kLimit);
  std::uint64_t pushed = 0;
  CHECK(ways_given(pace, 10 * kLimit, kLimit, pushed) == 7);
  CHECK(pushed == kLimit);  // behind 1,024 operations, 1,536, 2,560, 4,608, 8,704, 16,896, 33,280
}

TEST_CASE("operations that stand still cost pushers of others a few pauses, not one each time") {
  PushPace pace(65'536);
  std::uint64_t pushed = 0;
  CHECK(ways_given(pace, 1'000'000, 600, pushed) < 7 + 1'000'000 / 65'536 + 1);
  CHECK(pushed == 1'000'000);
}

TEST_CASE("lanes that stood still and follow again are given way as before") {
  PushPace pace(65'536);
  std::uint64_t pushed = 0;
  ways_given(pace, 40'000, 65'536, pushed);  // the next pause would be 32,768 operations away
  REQUIRE(pace.look(70'000, 30'000, 30'000) == Answer::give_way);
  pace.caught_up(70'000);
  CHECK(pace.look(70'500, kFar, kFar) == Answer::go_on);
  CHECK(pace.look_is_due(70'000 + kCaughtUp));
  CHECK(pace.look(70'000 + kCaughtUp, kFar, kFar) == Answer::give_way);
}

TEST_CASE("a limit that no count reaches is none") {
  PushPace pace(~std::uint64_t{0});
  CHECK(pace.look(2 * kFar, 2 * kFar, 2 * kFar) == Answer::give_way);
  CHECK_FALSE(pace.look_is_due(2 * kFar + kCaughtUp - 1));
}

TEST_CASE("lanes that follow are given way whenever a pusher is far ahead") {
  PushPace pace(65'536);
  std::uint64_t pushed = 0;
  // 1,024 operations, then from the 512 that are left to 1,024 again and again.
  CHECK(ways_given(pace, kFar + 10 * kCaughtUp + 1, kCaughtUp, pushed) == 11);
}

TEST_CASE("what replays hold counts for the limit, and gives nobody cause to give way") {
  PushPace pace(4096);
  CHECK(pace.look(3000, 3000, 10) == Answer::go_on);
  CHECK_FALSE(pace.look_is_due(3000 + kFar - 11));
  CHECK(pace.look(4000, 4000, 10) == Answer::go_on);
  CHECK(pace.look_is_due(4096));
  CHECK(pace.look(4096, 4096, 10) == Answer::wait);
  CHECK(pace.look_is_due(4096));
}

TEST_CASE("a limit below what is far ahead is the limit") {
  PushPace pace(4);
  CHECK(pace.look(0, 0, 0) == Answer::go_on);
  CHECK_FALSE(pace.look_is_due(3));
  CHECK(pace.look(4, 4, 4) == Answer::wait);
  CHECK(pace.look(4, 3, 3) == Answer::go_on);
  CHECK(pace.look_is_due(5));
}

TEST_CASE("behind a wait at the limit a pusher does not give way once more at once") {
  constexpr std::uint64_t kLimit = 2048;
  PushPace pace(kLimit);
  std::uint64_t pushed = 0;
  ways_given(pace, 2 * kLimit, kLimit, pushed);
  REQUIRE(pace.look(pushed, kLimit, kLimit) == Answer::wait);
  CHECK(pace.look(pushed, kLimit - kLimit / 8, kLimit - kLimit / 8) == Answer::go_on);
  CHECK(pace.look_is_due(pushed + kLimit / 8));
}

}  // namespace
}  // namespace troupe::engine
