// SPDX-License-Identifier: Apache-2.0
// When a pusher goes on, gives way or waits, without an engine.
#include "engine/push_pace.h"

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
  CHECK_FALSE(pace.look_is_due(kFar + kCaughtUp - 1));
  REQUIRE(pace.look_is_due(kFar + kCaughtUp));
  CHECK(pace.look(kFar + kCaughtUp, kFar - 1, kFar - 1) == Answer::go_on);
  CHECK(pace.look_is_due(kFar + kCaughtUp + 1));
}

TEST_CASE(
    "a pusher gives way to lanes that stand still a few times only, then waits at the limit") {
  constexpr std::uint64_t kLimit = 65'536;
  PushPace pace(kLimit);
  int given_way = 0;
  std::uint64_t pushed = 0;  // nothing is ever done
  while (pushed < 10 * kLimit) {
    const Answer answer =
        pace.look_is_due(pushed) ? pace.look(pushed, pushed, pushed) : Answer::go_on;
    if (answer == Answer::wait) break;
    given_way += answer == Answer::give_way ? 1 : 0;
    ++pushed;
  }
  CHECK(pushed == kLimit);
  CHECK(given_way == 7);  // behind 1,024 operations, 1,536, 2,560, 4,608, 8,704, 16,896, 33,280
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

TEST_CASE("lanes that move again are given way as before") {
  PushPace pace(65'536);
  for (const std::uint64_t pushed : {2000, 3000, 5000, 9000}) {
    CHECK(pace.look(pushed, pushed, pushed) == Answer::give_way);
  }
  CHECK(pace.look(20'000, 0, 0) == Answer::go_on);
  CHECK(pace.look(21'024, kFar, kFar) == Answer::give_way);
  CHECK(pace.look_is_due(21'024 + kCaughtUp));
}

}  // namespace
}  // namespace troupe::engine
