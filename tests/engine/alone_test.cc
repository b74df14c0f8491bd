// SPDX-License-Identifier: Apache-2.0
// Operations that run alone, straight from what pushers left, and what must not go past them.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/program.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

/// An engine whose compute lane has been given an operation that writes `mine` until `gate` opens.
struct Alone : Fixture {
  Alone() : Fixture(true) {
    for (const Lane lane : {kCopy, kPriority}) push_nothing({}, {other}, lane);
    static_cast<void>(engine->wait(other));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // these lanes fall asleep
    Gate busy, go;
    push("busy", {}, {other}, [&](RunContext&) {
      busy.open();
      go.pass();
      return base::Status();
    });
    busy.pass();
    push("alone", {}, {mine}, [this](RunContext&) {
      begun.open();
      gate.pass();
      ended = true;
      return base::Status();
    });
    go.open();
    begun.pass();
  }
  ~Alone() {
    gate.open();
    engine.reset();  // what is pending names members
  }

  void push_nothing(std::vector<Variable> reads, std::vector<Variable> writes, Lane lane) {
    push(
        "nothing", std::move(reads), std::move(writes), [](RunContext&) { return base::Status(); },
        lane);
  }
  /// An operation that says whether the one alone had ended.
  void push_look(std::vector<Variable> reads, std::vector<Variable> writes, Lane lane) {
    push("look", std::move(reads), std::move(writes), look(), lane);
  }
  SyncFunction look() {
    return [this](RunContext&) {
      saw_end = ended.load();
      looked.open();
      return base::Status();
    };
  }

  Variable other = variable("other"), mine = variable("mine");
  Gate gate, begun, looked;
  std::atomic<bool> ended{false}, saw_end{false};
};

/// One whose operation does run alone: no lane happened to look into the inbox meanwhile.
std::unique_ptr<Alone> make_alone() {
  std::unique_ptr<Alone> alone;
  for (int i = 0; i < 100 && (alone == nullptr || alone->engine->counters().alone == 0); ++i) {
    alone.reset();
    alone = std::make_unique<Alone>();
  }
  REQUIRE(alone->engine->counters().alone == 1);
  return alone;
}

/// `looked` has to be behind the end of the operation alone.
void check_waits(Alone& alone) {
  CHECK_FALSE(alone.looked.pass_within(0));
  alone.gate.open();
  REQUIRE(alone.looked.pass_within(60));
  CHECK(alone.saw_end);
}

TEST_CASE("another lane waits for what an operation alone writes") {
  const std::unique_ptr<Alone> alone = make_alone();
  alone->push_look({alone->mine}, {}, kCopy);
  alone->push_nothing({}, {alone->other}, kCopy);
  CHECK(alone->engine->wait(alone->other).ok());  // the copy lane has been through
  check_waits(*alone);
}

TEST_CASE("another lane does not wait for an operation alone that has nothing of its own") {
  const std::unique_ptr<Alone> alone = make_alone();
  alone->push_look({alone->other}, {}, kCopy);
  REQUIRE(alone->looked.pass_within(60));
  CHECK_FALSE(alone->saw_end);
}

TEST_CASE("a replay waits for what an operation alone writes") {
  const std::unique_ptr<Alone> alone = make_alone();
  Recording recording("replay", kCopy);
  InnerOperation inner{.name = "inner", .function = alone->look()};
  inner.reads = {recording.port(alone->mine)};
  recording.add(std::move(inner));
  Program program = alone->engine->compile(std::move(recording));
  program.replay();
  alone->push_nothing({}, {alone->other}, kCopy);
  CHECK(alone->engine->wait(alone->other).ok());
  check_waits(*alone);
}

TEST_CASE("a brief operation does not run on its pusher's thread beside one alone that it needs") {
  const std::unique_ptr<Alone> alone = make_alone();
  alone->engine->push(
      {.name = "brief", .reads = {&alone->mine, 1}, .lane = kPriority, .brief = true},
      alone->look());
  check_waits(*alone);
}

TEST_CASE("who waits for what an operation alone writes waits for its end") {
  const std::unique_ptr<Alone> alone = make_alone();
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    alone->gate.open();
  });
  CHECK(alone->engine->wait(alone->mine).ok());
  CHECK(alone->ended);
  opener.join();
}

TEST_CASE("a variable whose last handle goes while its operation runs alone is not reused") {
  const std::unique_ptr<Alone> alone = make_alone();
  alone->mine = Variable();
  const Variable fresh = alone->variable("fresh");  // would be the one that was freed
  alone->push_look({}, {fresh}, kCopy);
  REQUIRE(alone->looked.pass_within(60));
  CHECK_FALSE(alone->saw_end);
}

TEST_CASE("what an operation alone pushes runs behind it") {
  Fixture fixture(true);
  const Variable a = fixture.variable("a"), b = fixture.variable("b");
  std::vector<int> order;
  Gate last;
  fixture.push("outer", {}, {a}, [&](RunContext&) {
    fixture.push("inner", {a}, {b}, [&](RunContext&) {
      order.push_back(2);
      last.open();
      return base::Status();
    });
    order.push_back(1);
    return base::Status();
  });
  REQUIRE(last.pass_within(60));  // waiting for all means what has been pushed so far
  CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("a dump names the operation alone that others wait for") {
  const std::unique_ptr<Alone> alone = make_alone();
  alone->push_look({alone->mine}, {}, kCopy);
  const std::string dump = alone->engine->dump();
  CHECK_THAT(dump, Catch::Contains(" alone [cpu:0 compute]: running"));
  CHECK_THAT(dump, Catch::Contains(" alone (writes)"));
  CHECK(alone->engine->counters().pending == 2);
}

/// Runs one that fails, alone if no lane happens to look meanwhile, and one that inherits from it.
/// How many ran alone.
std::uint64_t fail_alone() {
  Fixture fixture(true);
  const Variable a = fixture.variable("a"), b = fixture.variable("b");
  Gate busy, go, begun, gate;
  fixture.push("busy", {}, {b}, [&](RunContext&) {
    busy.open();
    go.pass();
    return base::Status();
  });
  busy.pass();
  fixture.push("fails", {}, {a}, [&](RunContext&) {
    begun.open();
    gate.pass();
    return base::error(base::Errc::data_loss, "no");
  });
  go.open();
  begun.pass();
  const std::uint64_t alone = fixture.engine->counters().alone;
  bool ran = false;
  fixture.push("inherits", {a}, {b}, [&](RunContext&) {
    ran = true;
    return base::Status();
  });
  gate.open();
  CHECK(fixture.engine->wait(b).code() == base::Errc::data_loss);
  CHECK_FALSE(ran);
  return alone;
}

TEST_CASE("an error of an operation alone is carried to those behind it") {
  std::uint64_t alone = 0;
  for (int i = 0; i < 100 && alone == 0; ++i) alone = fail_alone();
  CHECK(alone == 1);
}

TEST_CASE("a priority of its own does not stay behind operations alone") {
  Fixture fixture(true);
  const Variable a = fixture.variable("a"), b = fixture.variable("b");
  Gate gate, done;
  fixture.push_gate(gate, b);
  std::atomic<int> before{0};
  for (int i = 0; i < 100; ++i) {
    fixture.push("plain", {}, {a}, [&](RunContext&) {
      ++before;
      return base::Status();
    });
  }
  int ahead = -1;
  fixture.engine->push({.name = "urgent", .reads = {&b, 1}, .priority = 1}, [&](RunContext&) {
    ahead = before;
    done.open();
    return base::Status();
  });
  gate.open();
  done.pass();  // a waiter for all would queue all
  REQUIRE(fixture.engine->wait_all().ok());
  CHECK(ahead == 0);
}

/// How many operations of priority -1 went before a plain one that was pushed behind them.
int idle_ahead(Fixture& fixture) {
  const Variable a = fixture.variable("a"), b = fixture.variable("b");
  Gate busy, gate, done;
  fixture.push("busy", {}, {b}, [&](RunContext&) {
    busy.open();
    gate.pass();
    return base::Status();
  });
  busy.pass();
  std::atomic<int> before{0};
  for (int i = 0; i < 10; ++i) {
    fixture.engine->push({.name = "idle", .reads = {&a, 1}, .priority = -1}, [&](RunContext&) {
      ++before;
      return base::Status();
    });
  }
  int ahead = -1;
  fixture.push("plain", {a}, {}, [&](RunContext&) {
    ahead = before;
    done.open();
    return base::Status();
  });
  gate.open();
  done.pass();  // a waiter for all would queue all
  CHECK(fixture.engine->wait_all().ok());
  return ahead;
}

TEST_CASE("what has a priority below 0 stays behind what pushers have left") {
  Fixture fixture(true);
  for (int i = 0; i < 50; ++i) CHECK(idle_ahead(fixture) == 0);  // other lanes fall asleep soon
}

}  // namespace
}  // namespace troupe::engine
