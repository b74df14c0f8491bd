// SPDX-License-Identifier: Apache-2.0
// Brief operations: who runs them, and that nothing else about them differs.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

/// Pushes a brief operation that writes `variable`; where it runs comes to `where`.
void push_brief(Fixture& fixture, const Variable& variable, std::thread::id& where) {
  fixture.engine->push({.name = "brief", .writes = {&variable, 1}, .brief = true},
                       [&where](RunContext&) {
                         where = std::this_thread::get_id();
                         return base::Status();
                       });
}

/// The compute lane's thread has found nothing to do. Until then it may take what is pushed.
void let_lane_idle(Fixture& fixture) {
  const Variable any = fixture.variable("any");
  std::thread::id where;
  for (int i = 0; i < 10'000 && where != std::this_thread::get_id(); ++i) {
    push_brief(fixture, any, where);
    REQUIRE(fixture.engine->wait(any).ok());
  }
  REQUIRE(where == std::this_thread::get_id());
}

TEST_CASE("a brief operation runs on the pusher's thread where its lane is idle") {
  Fixture fixture(true);
  let_lane_idle(fixture);
  const Variable a = fixture.variable("a");
  bool engine_thread = false;
  int team = 0;
  fixture.engine->push({.name = "brief", .writes = {&a, 1}, .brief = true},
                       [&](RunContext& context) {
                         engine_thread = Engine::on_engine_thread();
                         team = context.team;
                         context.slots->get<int>() = 1;
                         return base::Status();
                       });
  CHECK(engine_thread);  // so it cannot wait
  CHECK(team == 1);
  CHECK_FALSE(Engine::on_engine_thread());
  CHECK(fixture.engine->counters().pending == 0);
}

TEST_CASE("a brief operation that is blocked runs on its lane, in its turn") {
  Fixture fixture(true);
  let_lane_idle(fixture);
  const Variable a = fixture.variable("a");
  Gate gate;
  fixture.push_gate(gate, a);
  std::thread::id where;
  push_brief(fixture, a, where);
  gate.open();
  REQUIRE(fixture.engine->wait_all().ok());
  CHECK(where != std::thread::id());
  CHECK(where != std::this_thread::get_id());
}

TEST_CASE("a brief operation of a busy lane waits for the lane") {
  Fixture fixture(true);
  let_lane_idle(fixture);
  const Variable a = fixture.variable("a"), b = fixture.variable("b");
  Gate gate, begun;
  fixture.push("busy", {}, {a}, [&](RunContext&) {
    begun.open();
    gate.pass();
    return base::Status();
  });
  REQUIRE(begun.pass_within(60));
  std::thread::id where;
  push_brief(fixture, b, where);
  CHECK(where == std::thread::id());
  gate.open();
  REQUIRE(fixture.engine->wait_all().ok());
  CHECK(where != std::this_thread::get_id());
}

TEST_CASE("an error of a brief operation is carried, and one that it inherits skips it") {
  Fixture fixture(true);
  let_lane_idle(fixture);
  const Variable a = fixture.variable("a"), b = fixture.variable("b");
  fixture.engine->push({.name = "fails", .writes = {&a, 1}, .brief = true},
                       [](RunContext&) { return base::error(base::Errc::data_loss, "no"); });
  bool ran = false;
  fixture.engine->push({.name = "inherits", .reads = {&a, 1}, .writes = {&b, 1}, .brief = true},
                       [&](RunContext&) {
                         ran = true;
                         return base::Status();
                       });
  CHECK_FALSE(ran);
  CHECK(fixture.engine->wait(b).code() == base::Errc::data_loss);
  fixture.engine->push({.name = "throws", .overwrites = {&a, 1}, .brief = true}, [](RunContext&) {
    static_cast<void>(std::vector<int>().at(1));
    return base::Status();
  });
  CHECK(fixture.engine->wait(a).code() == base::Errc::internal);
  const EngineCounters counters = fixture.engine->counters();
  CHECK(counters.failed == 2);
  CHECK(counters.skipped == 1);
}

TEST_CASE("what a brief operation pushes, and what its captures push at their end, is done") {
  Fixture fixture(true);
  let_lane_idle(fixture);
  const Variable a = fixture.variable("a");
  std::atomic<int> done{0};
  const auto push = [&] {
    fixture.engine->push({.name = "inner", .writes = {&a, 1}, .brief = true}, [&](RunContext&) {
      ++done;
      return base::Status();
    });
  };
  const auto at_end = [&](int*) { push(); };
  int anything = 0;
  std::shared_ptr<int> capture(&anything, at_end);
  fixture.engine->push({.name = "outer", .writes = {&a, 1}, .brief = true},
                       [&push, capture = std::move(capture)](RunContext&) {
                         push();
                         return base::Status();
                       });
  capture.reset();
  REQUIRE(fixture.engine->wait_all().ok());
  CHECK(done == 2);
}

TEST_CASE("an actor's thread leaves brief operations to their lane") {
  Fixture fixture(true);
  let_lane_idle(fixture);
  const Variable a = fixture.variable("a");
  std::thread::id where, actor;
  std::thread([&] {
    mark_actor_thread();
    actor = std::this_thread::get_id();
    push_brief(fixture, a, where);
  }).join();
  REQUIRE(fixture.engine->wait_all().ok());
  CHECK(where != actor);
}

TEST_CASE("many threads push brief operations and others on crossing variables") {
  constexpr int kThreads = 4, kPushes = 2'000;
  Fixture fixture(true, {.copy_threads = 2});
  std::vector<Variable> variables;
  std::vector<int> values(3, 0);  // plain: the engine orders who changes them
  for (int v = 0; v < 3; ++v) variables.push_back(fixture.variable("v" + std::to_string(v)));
  std::atomic<int> failed{0};  // no thread but the test's own may check
  std::vector<std::thread> pushers;
  for (int t = 0; t < kThreads; ++t) {
    pushers.emplace_back([&, t] {
      for (int i = 0; i < kPushes; ++i) {
        const auto v = static_cast<std::size_t>((t + i) % 3);
        const Operation operation{.name = "count",
                                  .writes = {&variables[v], 1},
                                  .lane = i % 5 == 0 ? kCopy : kCompute,
                                  .brief = i % 3 != 0};
        fixture.engine->push(operation, [&values, v](RunContext&) {
          ++values[v];
          return base::Status();
        });
        if (i % 64 == 0 && !fixture.engine->wait(variables[v]).ok()) ++failed;
      }
    });
  }
  for (std::thread& pusher : pushers) pusher.join();
  REQUIRE(fixture.engine->wait_all().ok());
  CHECK(failed == 0);
  CHECK(values[0] + values[1] + values[2] == kThreads * kPushes);
}

}  // namespace
}  // namespace troupe::engine
