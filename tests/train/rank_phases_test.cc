// SPDX-License-Identifier: Apache-2.0
// Phases of a rank's thread on a manual clock: each gets its time, together the time that passed.
#include "train/rank_phases.h"

#include <numeric>

#include "tests/support/catch.h"

namespace troupe::train {
namespace {

std::int64_t at(const RankPhases& phases, RankPhase phase) {
  return phases.times()[static_cast<std::size_t>(phase)];
}

TEST_CASE("the phases of a rank add up to the time since the first", "[metrics]") {
  base::ManualClock clock;
  RankPhases phases(clock);
  clock.advance_ns(1000);
  CHECK(phases.times() == RankPhases::Times{});

  phases.enter(RankPhase::idle);
  clock.advance_ns(3);
  {
    const InPhase scoring(phases, RankPhase::eval);
    clock.advance_ns(10);
    {
      const InPhase waiting(phases, RankPhase::data);
      clock.advance_ns(7);
      CHECK(at(phases, RankPhase::data) == 7);  // while it lasts
    }
    clock.advance_ns(20);
  }
  clock.advance_ns(4);
  CHECK(at(phases, RankPhase::idle) == 7);
  CHECK(at(phases, RankPhase::eval) == 30);
  CHECK(at(phases, RankPhase::data) == 7);
  const RankPhases::Times times = phases.times();
  CHECK(std::accumulate(times.begin(), times.end(), std::int64_t{0}) == 44);
}

}  // namespace
}  // namespace troupe::train
