// SPDX-License-Identifier: Apache-2.0
// Time without the pauses of the process.
#include "base/awake_clock.h"

#include "base/limits.h"
#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("what lies between two looks too far apart is left out and counted", "[clock]") {
  ManualClock clock;
  clock.advance_ms(5'000);
  const AwakeClock awake(clock, 100, 3'750);
  CHECK(awake.now_ms() == 5'000);
  clock.advance_ms(3'850);  // late, but no later than load makes a thread
  CHECK(awake.now_ms() == 8'850);
  CHECK(awake.pauses().count == 0);
  clock.advance_ms(3'851);
  CHECK(awake.now_ms() == 8'850);
  CHECK(awake.pauses().count == 1);
  CHECK(awake.pauses().total_ms == 3'851);
  clock.advance_ms(100);
  CHECK(awake.now_ms() == 8'950);
  clock.advance_ms(60'000);
  CHECK(awake.now_ms() == 8'950);
  CHECK(awake.pauses().count == 2);
  CHECK(awake.pauses().total_ms == 63'851);
}

TEST_CASE("a peer that dies is found however often this process stands still", "[clock]") {
  ManualClock clock;
  const AwakeClock awake(clock, 100, own_pause_ms(Limits().silence_dead_ms));
  int looks = 0;
  while (awake.now_ms() < 15'000 && looks < 1'000) {
    clock.advance_ms(++looks % 2 == 0 ? 10'000 : 100);  // every other look after a pause
  }
  CHECK(looks == 299);
}

}  // namespace
}  // namespace troupe::base
