// SPDX-License-Identifier: Apache-2.0
// Programs whose work goes out as graphs: when one is written down, which operations are one unit,
// and that values, errors and the order of ports are those of operations issued one by one.
#include "engine/unit_graphs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/program.h"
#include "engine/replay_plan.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"
#include "tests/support/test_folder.h"

namespace troupe::engine {
namespace {

using base::Errc;
using base::Status;
using tests::DelayedStream;
using Way = UnitGraphs::Way;

class NoGraph final : public base::StreamGraph {};

TEST_CASE("addresses that come again are written down, and launched from then on") {
  UnitGraphs graphs;
  std::array<int, UnitGraphs::kSetsMax + 1> places{};
  const auto at = [&](std::size_t i) { return std::vector<const void*>{&places[0], &places[i]}; };
  CHECK(graphs.choose(at(0)) == Way::issue);
  CHECK(graphs.choose(at(1)) == Way::issue);
  CHECK(graphs.choose(at(0)) == Way::write_down);
  const auto first = std::make_shared<NoGraph>();
  graphs.keep(first);
  CHECK(graphs.choose(at(1)) == Way::write_down);
  const auto second = std::make_shared<NoGraph>();
  graphs.keep(second);
  CHECK(graphs.choose(at(0)) == Way::launch);
  CHECK(graphs.graph() == first);
  CHECK(graphs.choose(at(1)) == Way::launch);
  CHECK(graphs.graph() == second);
  // The set whose last use is longest ago goes.
  for (std::size_t i = 2; i <= UnitGraphs::kSetsMax; ++i) {
    CHECK(graphs.choose(at(0)) == Way::launch);
    CHECK(graphs.choose(at(i)) == Way::issue);
  }
  CHECK(graphs.choose(at(1)) == Way::issue);
  CHECK(graphs.choose(at(0)) == Way::launch);
  CHECK_FALSE(graphs.gave_up());
  graphs.give_up();
  CHECK(graphs.gave_up());
  CHECK(graphs.choose(at(0)) == Way::issue);
  CHECK(graphs.choose(at(0)) == Way::issue);
  CHECK(first.use_count() == 1);
}

TEST_CASE("graphs for which there was no memory are tried again, each time later") {
  UnitGraphs graphs;
  const std::vector<const void*> addresses{&graphs};
  std::uint32_t pause = UnitGraphs::kPauseMin;
  for (int i = 0; i < 12; ++i) {
    CHECK(graphs.choose(addresses) == Way::issue);
    CHECK(graphs.choose(addresses) == Way::write_down);
    graphs.put_off();
    CHECK_FALSE(graphs.gave_up());
    for (std::uint32_t k = 0; k < pause; ++k) REQUIRE(graphs.choose(addresses) == Way::issue);
    pause = std::min(2 * pause, UnitGraphs::kPauseMax);
  }
  CHECK(pause == UnitGraphs::kPauseMax);
  CHECK(graphs.choose(addresses) == Way::issue);
  CHECK(graphs.choose(addresses) == Way::write_down);
}

/// A program's operations on doubles: values[to] = values[from] + 1 on the stream, at addresses
/// that are looked up when the operation is issued.
struct Doubles {
  SyncFunction add(std::size_t to, std::size_t from) {
    return [this, to, from](RunContext& context) {
      context.stream->enqueue_host([target = places[to], source = places[from]] {
        *target = *source + 1;
        return Status();
      });
      return Status();
    };
  }
  AddressFunction at(std::size_t to, std::size_t from) {
    return [this, to, from](RunContext&, std::vector<const void*>& addresses) {
      addresses.insert(addresses.end(), {places[to], places[from]});
      return Status();
    };
  }
  InnerOperation operation(std::size_t to, std::size_t from) {
    return {.name = "add", .function = add(to, from), .addresses = at(to, from)};
  }

  std::array<double, 8> values{};
  std::array<double*, 4> places{&values[0], &values[1], &values[2], &values[3]};
};

/// values[3] = values[0] + 3, with a port at each end.
struct Chain {
  Chain(Fixture& f, Doubles& doubles, bool middle_differs = false)
      : in(f.variable("in")), out(f.variable("out")) {
    Recording recording("chain", kDelayed, true);
    const Slot a = recording.inner();
    const Slot b = recording.inner();
    InnerOperation first = doubles.operation(1, 0);
    first.reads = {recording.port(in)};
    first.overwrites = {a};
    InnerOperation second = doubles.operation(2, 1);
    second.reads = {a};
    second.overwrites = {b};
    if (middle_differs) second.addresses = {};
    InnerOperation third = doubles.operation(3, 2);
    third.reads = {b};
    third.overwrites = {recording.port(out)};
    for (InnerOperation* operation : {&first, &second, &third}) {
      recording.add(std::move(*operation));
    }
    program = f.engine->compile(std::move(recording));
  }

  Variable in, out;
  Program program;
};

TEST_CASE("work is issued, written down and launched, with the same values") {
  DelayedStream stream;
  Fixture f(true, EngineOptions{.streams = {&stream}});
  Doubles doubles;
  Chain chain(f, doubles);
  for (int replay = 1; replay <= 4; ++replay) {
    f.push("set", {}, {chain.in}, [&](RunContext&) {
      doubles.values[0] = replay;
      return Status();
    });
    chain.program.replay();
    REQUIRE(f.engine->wait(chain.out).ok());
    CHECK(doubles.values[3] == replay + 3);
    CHECK(stream.graphs() == (replay >= 2 ? 1 : 0));
    CHECK(stream.launches() == static_cast<std::uint64_t>(replay - 1));
  }
  const EngineCounters counters = f.engine->counters();
  CHECK(counters.completed == 4 + 4 * 3);
  CHECK(counters.lanes[0].in_graphs == 3 * 3);
}

TEST_CASE("a graph belongs to its addresses") {
  DelayedStream stream;
  Fixture f(true, EngineOptions{.streams = {&stream}});
  Doubles doubles;
  Chain chain(f, doubles);
  const auto replay = [&](std::size_t out) {
    f.push("move", {}, {chain.in, chain.out}, [&doubles, out](RunContext&) {
      doubles.values = {10};
      doubles.places[3] = &doubles.values[out];
      return Status();
    });
    chain.program.replay();
    REQUIRE(f.engine->wait(chain.out).ok());
    CHECK(doubles.values[out] == 13);
    CHECK(doubles.values[out == 3 ? 4 : 3] == 0);
  };
  for (int i = 0; i < 3; ++i) {
    replay(3);
    replay(4);
  }
  CHECK(stream.graphs() == 2);
  CHECK(stream.launches() == 4);
}

TEST_CASE("without addresses, without graphs or while traced, all is issued one by one") {
  const int why = GENERATE(0, 1, 2);
  const TestFolder folder("graphs");
  EngineOptions options;
  DelayedStream stream;
  options.streams = {&stream};
  options.graphs = why != 1;
  if (why == 2) options.trace_path = (folder.path() / "trace.json").string();
  Doubles doubles;
  Fixture f(true, options);
  Chain chain(f, doubles, why == 0);
  for (int i = 0; i < 3; ++i) chain.program.replay();
  CHECK(f.engine->wait(chain.out).ok());
  CHECK(doubles.values[3] == 3);
  CHECK(stream.graphs() == 0);
  CHECK(stream.ran() == 9);
  CHECK(f.engine->counters().lanes[0].in_graphs == 0);
}

TEST_CASE("work that cannot be written down is issued, for good") {
  DelayedStream stream;
  Fixture f(true, EngineOptions{.streams = {&stream}});
  Doubles doubles;
  Chain chain(f, doubles);
  stream.refuse_graph(Status(Errc::internal, "a library waits for its device"));
  for (int i = 0; i < 4; ++i) chain.program.replay();
  CHECK(f.engine->wait(chain.out).ok());
  CHECK(doubles.values[3] == 3);
  CHECK(stream.graphs() == 0);
  CHECK(stream.launches() == 0);
}

TEST_CASE("work for whose graph there was no memory is issued, and written down later") {
  DelayedStream stream;
  Fixture f(true, EngineOptions{.streams = {&stream}});
  Doubles doubles;
  Chain chain(f, doubles);
  stream.refuse_graph(Status(Errc::resource_exhausted, "the device is full"));
  const auto replay = [&](std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) chain.program.replay();
    CHECK(f.engine->wait(chain.out).ok());
    CHECK(doubles.values[3] == 3);
  };
  replay(2);  // the second one has no memory
  stream.refuse_graph({});
  replay(UnitGraphs::kPauseMin + 1);  // as if nothing were known
  CHECK(stream.graphs() == 0);
  replay(1);
  CHECK(stream.graphs() == 1);
  CHECK(stream.launches() == 1);
}

TEST_CASE("an error at a port skips what reads it, and graphs go on behind it") {
  DelayedStream stream;
  Fixture f(true, EngineOptions{.streams = {&stream}});
  Doubles doubles;
  Chain chain(f, doubles);
  const auto set = [&](Status status) {
    f.engine->push({.name = "set", .lane = kCompute, .overwrites = std::span(&chain.in, 1)},
                   [status](RunContext&) { return status; });
    chain.program.replay();
    return f.engine->wait(chain.out);
  };
  CHECK(set({}).ok());
  CHECK(set({}).ok());
  CHECK(stream.launches() == 1);
  CHECK(set(Status(Errc::internal, "no input")).text() == "no input");
  CHECK(stream.launches() == 1);
  CHECK(set({}).ok());  // the output's port still has the error
  CHECK(stream.launches() == 1);
  CHECK(set({}).ok());
  CHECK(stream.launches() == 2);
  CHECK(doubles.values[3] == 3);
}

TEST_CASE("errors of getting addresses and of writing down are the operation's own") {
  DelayedStream stream;
  Fixture f(true, EngineOptions{.streams = {&stream}});
  Doubles doubles;
  Recording recording("program", kDelayed, true);
  const Variable a = f.variable("a");
  const Variable b = f.variable("b");
  int replay = 0;
  InnerOperation good = doubles.operation(1, 0);
  good.overwrites = {recording.port(a)};
  InnerOperation bad = doubles.operation(2, 0);
  bad.overwrites = {recording.port(b)};
  const bool without_addresses = GENERATE(true, false);
  bad.addresses = [&](RunContext&, std::vector<const void*>&) -> Status {
    if (replay == 2 && without_addresses) {
      std::rethrow_exception(std::make_exception_ptr(std::bad_alloc()));
    }
    return {};
  };
  bad.function = [&](RunContext&) {
    return replay == 2 ? Status(Errc::internal, "no memory") : Status();
  };
  recording.add(std::move(good));
  recording.add(std::move(bad));
  Program program = f.engine->compile(std::move(recording));
  for (replay = 1; replay <= 5; ++replay) {
    program.replay();
    CHECK(f.engine->wait(a).ok());
    CHECK(f.engine->wait(b).text() == (replay == 2 ? "no memory" : ""));
  }
  CHECK(stream.launches() == (without_addresses ? 2 : 0));
  CHECK(doubles.values[1] == 1);
}

TEST_CASE("an operation that overwrites what its unit has read begins a new unit") {
  DelayedStream stream;
  Fixture f(true, EngineOptions{.streams = {&stream}});
  const Variable x = f.variable("x");
  Recording recording("program", kDelayed, true);
  const auto nothing = [](RunContext&) { return Status(); };
  const auto nowhere = [](RunContext&, std::vector<const void*>&) { return Status(); };
  const Slot a = recording.inner();
  const Slot port = recording.port(x);
  const auto add = [&](InnerOperation operation) {
    operation.function = nothing;
    operation.addresses = nowhere;
    recording.add(std::move(operation));
  };
  add({.name = "reads", .reads = {port}, .overwrites = {a}});
  add({.name = "changes", .reads = {a}, .writes = {port}});
  add({.name = "reads again", .reads = {port}, .overwrites = {a}});
  add({.name = "overwrites", .reads = {a}, .overwrites = {port}});
  add({.name = "reads the new value", .reads = {port}, .overwrites = {a}});
  const ReplayPlan plan(recording, true);
  REQUIRE(plan.units.size() == 2);
  CHECK(plan.units[0].operations.end == 3);
  CHECK(plan.units[1].operations.end == 5);
  CHECK(plan.units[1].before.end - plan.units[1].before.begin == 1);
}

TEST_CASE("units are as long as a graph may be, wait for all their ports and let them go early") {
  constexpr std::size_t kOperations = 2 * ReplayPlan::kGraphOperationsMax + 2;
  DelayedStream stream({.delay = std::chrono::microseconds(0)});
  Fixture f(true, EngineOptions{.streams = {&stream}});
  Doubles doubles;
  const Variable first = f.variable("first");
  const Variable last = f.variable("last");
  Recording recording("program", kDelayed, true);
  for (std::size_t i = 0; i < kOperations; ++i) {
    InnerOperation operation = doubles.operation(1, 1);
    if (i == 0) operation.writes = {recording.port(first)};
    if (i + 1 == kOperations) operation.writes = {recording.port(last)};
    recording.add(std::move(operation));
  }
  Program program = f.engine->compile(std::move(recording));
  for (int replay = 1; replay <= 3; ++replay) {
    Gate gate;
    f.push("holder", {}, {last}, [&](RunContext&) {
      gate.pass();
      return Status();
    });
    program.replay();
    // The first unit's port is free while the last unit waits for its own.
    CHECK(f.engine->wait(first).ok());
    while (f.engine->counters().pending > 3) std::this_thread::yield();  // the holder and a unit
    gate.open();
    CHECK(f.engine->wait(last).ok());
    CHECK(doubles.values[1] == static_cast<double>(replay * kOperations));
  }
  CHECK(stream.graphs() == 3);
  CHECK(stream.launches() == 6);
}

}  // namespace
}  // namespace troupe::engine
