// SPDX-License-Identifier: Apache-2.0
// The trace is JSON of the Trace Event Format and bounded.
#include "engine/trace.h"

#include <filesystem>
#include <string>

#include "base/file.h"
#include "tests/engine/support.h"
#include "tests/support/catch.h"

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

}  // namespace
}  // namespace troupe::engine
