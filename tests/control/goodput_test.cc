// SPDX-License-Identifier: Apache-2.0
// Goodput by hand: what counts while a run lives, and what is left of it when it ends.
#include "control/goodput.h"

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

/// Placed at 1 s, up at 3 s, 8 steps by 7 s, on top of `start`.
Goodput trained(std::uint64_t start) {
  Goodput run;
  run.placed(1'000);
  run.trains(start, 3'000);
  run.stepped(start + 4, 5'000);
  run.stepped(start + 8, 7'000);
  return run;
}

TEST_CASE("a run that lives counts until its newest report", "[goodput]") {
  Goodput run;
  run.placed(1'000);
  CHECK_FALSE(run.time(1'000).goodput().has_value());
  CHECK(run.time(3'000).goodput() == 0.0);
  run = trained(0);
  CHECK(run.time(9'000).held_ms == 8'000);
  CHECK(run.time(9'000).counted_ms == 4'000);
  CHECK(run.time(9'000).goodput() == 0.5);
  CHECK(run.time(17'000).goodput() == 0.25);  // a stall
  run.stepped(8, 18'000);                     // nothing new
  CHECK(run.time(17'000).goodput() == 0.25);
}

TEST_CASE("a job that is done keeps all its steps, and time stands still", "[goodput]") {
  Goodput run = trained(0);
  run.ended(true, 9'000);
  CHECK(run.time(9'000).goodput() == 0.5);
  CHECK(run.time(90'000).goodput() == 0.5);
}

TEST_CASE("a run that fails keeps what its checkpoint holds", "[goodput]") {
  SECTION("none") {
    Goodput run = trained(0);
    run.ended(false, 9'000);
    CHECK(run.time(9'000).counted_ms == 0);
    CHECK(run.time(9'000).held_ms == 8'000);
  }
  SECTION("of half the steps, behind those that were there before") {
    Goodput run = trained(100);
    run.checkpointed(104);
    run.ended(false, 9'000);
    CHECK(run.time(9'000).counted_ms == 2'000);
  }
  SECTION("of more than was reported") {
    Goodput run = trained(0);
    run.checkpointed(10);
    run.ended(false, 9'000);
    CHECK(run.time(9'000).counted_ms == 4'000);
  }
  SECTION("before it trained") {
    Goodput run;
    run.placed(1'000);
    run.ended(false, 2'000);
    CHECK(run.time(9'000).held_ms == 1'000);
    CHECK(run.time(9'000).goodput() == 0.0);
  }
}

}  // namespace
}  // namespace troupe::control
