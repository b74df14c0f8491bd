// SPDX-License-Identifier: Apache-2.0
// Traces are read as they are written; what is missing, cut, damaged or foreign is named.
#include "apps/trace_file.h"

#include <filesystem>

#include "base/clock.h"
#include "engine/engine.h"
#include "tests/apps/run_words.h"
#include "tests/support/catch.h"

namespace troupe::apps {
namespace {

using base::Errc;
using Catch::Contains;

const std::string kLane =
    R"({"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"cpu(0) compute"}})";
const std::string kRun =
    R"({"name":"conv1","ph":"X","pid":1,"tid":1,"ts":10.500,"dur":4.000,"args":)"
    R"x({"op":"convolution","kernel":"simd","inputs":"f32(1)","outputs":"f32(2)",)x"
    R"("pass":"forward"}})";
const std::string kBegin =
    R"({"name":"push w","cat":"async","ph":"b","id":7,"pid":1,"tid":0,"ts":11.000})";
const std::string kEnd =
    R"({"name":"push w","cat":"async","ph":"e","id":7,"pid":1,"tid":0,"ts":31.000})";
const std::string kDropped = R"({"name":"dropped","ph":"M","pid":1,"tid":0,"args":{"events":3}}]})";

std::string joined(const std::vector<std::string>& lines) {
  std::string text = "{\"traceEvents\":[\n";
  for (const std::string& line : lines) text += line + (line == kDropped ? "\n" : ",\n");
  return text;
}

TEST_CASE("a trace is its works, runs, flights and lanes", "[trace]") {
  const auto trace =
      parse_trace("t.json", joined({kLane, kRun, kRun, kBegin, kEnd, kDropped})).value();
  REQUIRE(trace.works.size() == 2);
  CHECK(trace.works[0] ==
        TracedWork{"conv1", "convolution", "simd", "f32(1)", "f32(2)", "forward"});
  CHECK(trace.works[1] == TracedWork{"push w", "", "", "", "", ""});
  REQUIRE(trace.runs.size() == 2);
  CHECK(trace.runs[1].work == 0);
  CHECK(trace.runs[1].row == 1);
  CHECK(trace.runs[1].begin_us == 10.5);
  CHECK(trace.runs[1].length_us == 4);
  REQUIRE(trace.flights.size() == 1);
  CHECK(trace.flights[0].work == 1);
  CHECK(trace.flights[0].length_us == 20);
  CHECK(trace.lanes.at(1) == "cpu(0) compute");
  CHECK(trace.dropped == 3);
  CHECK(parse_trace("t.json", joined({kDropped})).value().runs.empty());
}

TEST_CASE("a time of ages is damage", "[trace]") {
  std::string run = kRun;
  run.replace(run.find("4.000"), 5, "1e308");
  CHECK_FALSE(parse_trace("t.json", joined({kLane, run, kDropped})).ok());
}

TEST_CASE("both ends of a flight may share a line", "[trace]") {
  const auto trace = parse_trace("t.json", joined({kBegin + "," + kEnd, kRun, kDropped})).value();
  CHECK(trace.flights.size() == 1);
  CHECK(trace.runs.size() == 1);
}

TEST_CASE("an engine's trace is read, with what its functions tell", "[trace]") {
  const std::string path = std::filesystem::temp_directory_path() / "troupe-trace-read.json";
  const bool threaded = GENERATE(true, false);
  base::SteadyClock clock;
  engine::EngineOptions options;
  options.trace_path = path;
  {
    const auto engine = threaded ? engine::make_threaded_engine(options, clock)
                                 : engine::make_serial_engine(options, clock);
    const engine::Variable x = engine->new_variable("x");
    const engine::Operation add{"add", {}, {&x, 1}, {}};
    for (int i = 0; i < 3; ++i) {
      engine->push(add, [](engine::RunContext& context) {
        REQUIRE(context.detail != nullptr);
        *context.detail = R"({"op":"add_elemwise","kernel":"simd"})";
        return base::Status();
      });
    }
    const engine::Operation send{"send \"x\"", {}, {&x, 1}, {}};
    engine->push_async(send, [](engine::RunContext& context, engine::Completion done) {
      CHECK(context.detail == nullptr);
      done.complete();
    });
  }
  const auto trace = read_trace(path).value();
  CHECK(trace.runs.size() == 4);
  CHECK(trace.flights.size() == 1);
  REQUIRE(trace.works.size() == 2);
  CHECK(trace.works[0] == TracedWork{"add", "add_elemwise", "simd", "", "", ""});
  CHECK(trace.works[1].name == "send \"x\"");
  std::filesystem::remove(path);
}

TEST_CASE("no detail is asked for where no trace is taken", "[trace]") {
  base::SteadyClock clock;
  const auto engine = engine::make_threaded_engine({}, clock);
  const engine::Variable x = engine->new_variable("x");
  engine->push({"look", {}, {&x, 1}, {}}, [](engine::RunContext& context) {
    return context.detail == nullptr ? base::Status()
                                     : base::error(Errc::internal, "asked for detail");
  });
  CHECK(engine->wait(x).ok());
}

TEST_CASE("a trace that is cut anywhere is called so", "[trace]") {
  const std::string whole = joined({kLane, kRun, kBegin, kEnd, kDropped});
  REQUIRE(parse_trace("t.json", whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = parse_trace("t.json", whole.substr(0, size));
    INFO(size << ": " << cut.status().text());
    CHECK(cut.status().code() == Errc::data_loss);
    CHECK_THAT(cut.status().text(), Contains("t.json: ends in line "));
  }
}

TEST_CASE("damaged lines are named by their number, foreign files as such", "[trace]") {
  const std::vector<std::string> bad = {
      "nonsense",
      "[1]",
      R"({"name":"x","ph":"X","tid":1,"ts":1.0})",
      R"({"name":"x","ph":"X","tid":1,"ts":1.0,"dur":-1.0})",
      R"({"name":"x","ph":"X","tid":1,"ts":"1","dur":1.0})",
      R"({"name":"x","ph":"Q","tid":1,"ts":1.0,"dur":1.0})",
      R"({"name":"x","ph":"M","tid":1})",
      kEnd,
  };
  for (const std::string& line : bad) {
    const auto trace = parse_trace("t.json", joined({kLane, line, kRun, kDropped}));
    INFO(line);
    CHECK(trace.status().code() == Errc::data_loss);
    CHECK_THAT(trace.status().text(), Contains("t.json: line 3 is no event"));
  }
  CHECK(parse_trace("t.json", joined({kBegin, kDropped})).status().code() == Errc::data_loss);
  for (const std::string text : {"{\"schemaVersion\": 1, \"traceEvents\": []}", "[]",
                                 "\x7f"
                                 "ELF"}) {
    const auto foreign = parse_trace("t.json", text);
    CHECK(foreign.status().code() == Errc::invalid_argument);
    CHECK_THAT(foreign.status().text(), Contains("t.json: is no trace that 'troupe run --trace'"));
  }
}

}  // namespace
}  // namespace troupe::apps
