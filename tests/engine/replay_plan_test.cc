// SPDX-License-Identifier: Apache-2.0
// Which unit of a plan may run next, and which ports go when, without an engine; program_test.cc
// and property_test.cc see the same through engines.
#include "engine/replay_plan.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/program.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"

namespace troupe::engine {
namespace {

base::Status nothing(RunContext&) {
  return {};
}

TEST_CASE("what waited for a port goes before the units behind the cursor") {
  Fixture f(false);
  const Variable w = f.variable("w");
  Recording recording("program", kCompute);
  const Slot x = recording.inner();
  recording.add(
      {.name = "0", .reads = {recording.port(w)}, .overwrites = {x}, .function = nothing});
  recording.add({.name = "1", .function = nothing});
  recording.add({.name = "2", .reads = {x}, .function = nothing});
  recording.add({.name = "3", .function = nothing});
  const ReplayPlan plan(recording, false);
  ReplayProgress progress(plan);
  for (int replay = 0; replay < 2; ++replay) {
    progress.begin();
    CHECK(progress.next() == 1);
    progress.end(1);
    progress.grant(0, nullptr);  // the cursor stands at 2
    for (const std::uint32_t unit : {0U, 2U, 3U}) {
      CHECK(progress.may_go_on());
      CHECK_FALSE(progress.done());
      CHECK(progress.next() == unit);
      progress.end(unit);
    }
    CHECK(progress.next() == ReplayProgress::kNone);
    CHECK(progress.done());
    CHECK(progress.released() == std::vector<std::uint32_t>{0});
    progress.released().clear();
  }
}

TEST_CASE("a unit that depends on a passed one is passed, too, and both run in order") {
  Fixture f(false);
  const Variable v = f.variable("v"), w = f.variable("w");
  Recording recording("program", kCompute);
  const Slot x = recording.inner();
  recording.add(
      {.name = "0", .reads = {recording.port(v)}, .overwrites = {x}, .function = nothing});
  recording.add({.name = "1", .reads = {x, recording.port(w)}, .function = nothing});
  recording.add({.name = "2", .function = nothing});
  const ReplayPlan plan(recording, false);
  ReplayProgress progress(plan);
  progress.begin();
  progress.grant(1, nullptr);
  CHECK(progress.next() == 2);
  progress.end(2);
  CHECK(progress.next() == ReplayProgress::kNone);
  CHECK_FALSE(progress.may_go_on());
  CHECK_FALSE(progress.done());
  CHECK(progress.released().empty());
  progress.grant(0, nullptr);
  CHECK(progress.next() == 0);
  progress.end(0);
  CHECK(progress.released() == std::vector<std::uint32_t>{0});
  CHECK(progress.next() == 1);
  progress.end(1);
  CHECK(progress.released() == std::vector<std::uint32_t>{0, 1});
  CHECK(progress.done());
}

std::vector<std::uint32_t> quiet(const ReplayProgress& progress) {
  const Range range = progress.quiet();
  return {range.begin, range.end};
}

TEST_CASE("units without ports run without a question once no port is waited for") {
  using Numbers = std::vector<std::uint32_t>;
  Fixture f(false);
  const Variable w = f.variable("w");
  Recording recording("program", kCompute);
  for (const char* name : {"0", "1", "2", "3", "4"}) {
    InnerOperation operation{.name = name, .function = nothing};
    if (operation.name == "2") operation.reads = {recording.port(w)};
    recording.add(std::move(operation));
  }
  const ReplayPlan plan(recording, false);
  ReplayProgress progress(plan);
  for (int replay = 0; replay < 2; ++replay) {
    progress.begin();
    CHECK(quiet(progress) == Numbers{0, 0});  // the port is not granted
    progress.grant(0, nullptr);
    CHECK(quiet(progress) == Numbers{0, 2});
    progress.end_quiet(1);
    CHECK(quiet(progress) == Numbers{1, 2});
    progress.end_quiet(1);
    const Range none = progress.quiet();  // the turn of the one with the port
    CHECK(none.begin == none.end);
    CHECK(progress.next() == 2);
    progress.end(2);
    CHECK(progress.released() == Numbers{0});
    progress.released().clear();
    CHECK(quiet(progress) == Numbers{3, 5});
    progress.end_quiet(2);
    CHECK(progress.done());
    CHECK(quiet(progress) == Numbers{0, 0});
    CHECK(progress.next() == ReplayProgress::kNone);
  }
}

}  // namespace
}  // namespace troupe::engine
