// SPDX-License-Identifier: Apache-2.0
// The trace is JSON of the Trace Event Format and bounded.
#include "engine/trace.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "base/file.h"
#include "engine/program.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"

namespace troupe::engine {
namespace {

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("a trace has one event per run and a pair per flight, up to its limit") {
  const std::string path = std::string(TROUPE_BINARY_DIR) + "/engine_trace_test.json";
  const bool threaded = GENERATE(true, false);
  {
    Fixture f(threaded, EngineOptions{.trace_path = path, .trace_events_max = 6});
    const Variable x = f.variable("x");
    f.push_async("send \"quoted\"", {}, {x}, [](RunContext&, Completion c) { c.complete(); });
    for (int i = 0; i < 10; ++i) {
      f.push("add", {}, {x}, [i](RunContext& context) {
        if (i < 2) *context.detail = R"({"op":"add"})";
        return base::Status();
      });
    }
  }
  const std::string text = base::read_text_file(path, 1 << 20).value();
  CHECK(text.find("{\"traceEvents\":[") == 0);
  CHECK(count(text, "\"ph\":\"X\"") == 5);
  CHECK(count(text, "\"ph\":\"b\"") == 1);
  CHECK(count(text, "\"ph\":\"e\"") == 1);
  CHECK(count(text, "send \\\"quoted\\\"") == 3);
  CHECK(count(text, "\"args\":{\"op\":\"add\"}}") == 2);
  CHECK(count(text, "\"events\":6") == 1);  // dropped
  CHECK(text.find("]}\n") == text.size() - 3);
  std::filesystem::remove(path);
}

/// Of a trace's event that begins with `begin`: the number behind `"key":`.
double number(const std::string& text, const std::string& begin, const std::string& key) {
  const std::size_t event = text.find(begin);
  REQUIRE(event != std::string::npos);
  const std::size_t at = text.find("\"" + key + "\":", event);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + key.size() + 3));
}

TEST_CASE("a stream has a row of its own, with the times at which work ran") {
  const std::string path = std::string(TROUPE_BINARY_DIR) + "/engine_trace_stream.json";
  constexpr int kLateUs = 2'000;
  {
    tests::DelayedStream stream({.delay = std::chrono::microseconds(kLateUs)});
    Fixture f(true, EngineOptions{.streams = {&stream}, .trace_path = path});
    const Variable x = f.variable("x");
    const auto late = [](RunContext& context) {
      *context.detail = R"({"op":"late"})";
      context.stream->enqueue_host([] { return base::Status(); });
      return base::Status();
    };
    f.push_stream("pushed", {}, {x}, late);
    Recording recording("program", kDelayed, true);
    recording.add({.name = "first", .writes = {recording.port(x)}, .function = late});
    recording.add({.name = "second", .writes = {recording.port(x)}, .function = late});
    Program program = f.engine->compile(std::move(recording));
    program.replay();
    CHECK(f.engine->wait_all().ok());
  }
  const std::string text = base::read_text_file(path, 1 << 20).value();
  CHECK(count(text, ", its stream\"") == 1);
  CHECK(count(text, "{\"name\":\"issue\",\"ph\":\"X\"") == 3);
  CHECK(count(text, "\"args\":{\"op\":\"late\"}") == 3);
  double end = 0;
  for (const std::string name : {"pushed", "first", "second"}) {
    const std::string event = "{\"name\":\"" + name + "\",\"ph\":\"X\"";
    CHECK(count(text, event) == 1);
    CHECK(number(text, event, "dur") >= kLateUs);
    CHECK(number(text, event, "ts") > end - 1);  // microseconds, rounded
    end = number(text, event, "ts") + number(text, event, "dur");
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace troupe::engine
