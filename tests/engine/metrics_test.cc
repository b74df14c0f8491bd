// SPDX-License-Identifier: Apache-2.0
// An engine's figures on a clock that only operations move: time is counted where it was spent.
#include "engine/metrics.h"

#include "tests/engine/support.h"
#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

using Catch::Contains;

TEST_CASE("lanes count their operations by end, and the time of their threads", "[metrics]") {
  base::ManualClock clock;
  const auto engine = make_threaded_engine({}, clock);
  monitoring::Metrics metrics;
  const auto shown = show_engine(metrics, *engine, "e");
  Variable x = engine->new_variable("x");
  const auto push = [&](Lane lane, SyncFunction function) {
    engine->push({"test", {}, {&x, 1}, lane}, std::move(function));
  };
  push(kCompute, [&](RunContext&) {
    clock.advance_ms(1'500);
    return base::Status();
  });
  push(kCopy, [&](RunContext&) {
    clock.advance_ms(250);
    return base::error(base::Errc::data_loss, "torn");
  });
  push(kPriority, [](RunContext&) { return base::Status(); });  // inherits the error
  CHECK_FALSE(engine->wait(x).ok());
  CHECK(engine->wait_all().ok());  // wait() has told

  const auto lanes = engine->counters().lanes;
  CHECK(lanes[0].completed == 1);
  CHECK(lanes[1].failed == 1);
  CHECK(lanes[2].skipped == 1);
  CHECK(lanes[0].busy_ns >= 1'500'000'000);
  CHECK(lanes[1].busy_ns >= 250'000'000);
  for (const LaneCounters& lane : lanes) {
    CHECK(lane.threads == 1);
    CHECK(lane.queued == 0);
    CHECK(lane.busy_ns <= 1'750'000'000);
  }
  const std::string page = metrics.exposition();
  CHECK_THAT(page,
             Contains("engine_ops_total{engine=\"e\",class=\"compute\",result=\"done\"} 1\n"));
  CHECK_THAT(page, Contains("engine_ops_total{engine=\"e\",class=\"copy\",result=\"failed\"} 1\n"));
  CHECK_THAT(page,
             Contains("engine_ops_total{engine=\"e\",class=\"priority\",result=\"skipped\"} 1\n"));
  CHECK_THAT(page, Contains("troupe_engine_pending_ops{engine=\"e\"} 0\n"));
}

TEST_CASE("operations ready behind a running one are queued", "[metrics]") {
  Fixture f(true);
  Gate begun, gate;
  f.push("holds", {}, {}, [&](RunContext&) {
    begun.open();
    gate.pass();
    return base::Status();
  });
  REQUIRE(begun.pass_within(60));
  for (int i = 0; i < 3; ++i) f.push("waits", {}, {}, [](RunContext&) { return base::Status(); });
  const EngineCounters counters = f.engine->counters();
  CHECK(counters.pending == 4);
  CHECK(counters.lanes[0].queued == 3);
  CHECK(counters.lanes[1].queued == 0);
  gate.open();
  CHECK(f.engine->wait_all().ok());
  CHECK(f.engine->counters().lanes[0].queued == 0);
}

}  // namespace
}  // namespace troupe::engine
