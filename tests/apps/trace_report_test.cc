// SPDX-License-Identifier: Apache-2.0
// `troupe trace`: sums, medians, lanes and gaps of a trace whose times are known; its tables, JSON,
// and errors.
#include "apps/trace_report.h"

#include <filesystem>
#include <fstream>

#include "tests/apps/run_words.h"
#include "tests/support/catch.h"

namespace troupe::apps {
namespace {

using Catch::Contains;

/// Two convolutions (three runs), a push without a kernel, and two threads; 1 ms in all.
TraceFile small_trace() {
  TraceFile trace;
  trace.works = {{"conv1", "convolution", "simd", "f32(1)", "f32(2)", "forward"},
                 {"conv2", "convolution", "onednn:jit", "f32(3)", "f32(4)", "forward"},
                 {"push w", "", "", "", "", ""}};
  trace.runs = {{0, 1, 1000, 100}, {0, 1, 1100, 300}, {1, 1, 1450, 450}, {2, 2, 1995, 5}};
  trace.flights = {{2, 0, 1200, 600}, {2, 0, 1300, 200}};
  trace.lanes = {{1, "cpu compute"}, {2, "cpu copy"}, {3, "cpu priority"}};
  trace.dropped = 9;
  return trace;
}

TEST_CASE("a report has count, total, share, mean and median of each group", "[trace]") {
  const TraceReport report = report_of(small_trace(), TraceKey::op);
  CHECK(report.runs == 4);
  CHECK(report.span_us == Approx(1000));
  REQUIRE(report.groups.size() == 2);
  const TraceGroup& convolutions = report.groups[0];
  CHECK(convolutions.label == "convolution");
  CHECK(convolutions.times.count == 3);
  CHECK(convolutions.times.total_us == Approx(850));
  CHECK(convolutions.times.share == Approx(850.0 / 855));
  CHECK(convolutions.times.mean_us == Approx(850.0 / 3));
  CHECK(convolutions.times.median_us == Approx(300));
  CHECK(convolutions.works == 2);
  CHECK(report.groups[1].label == "push w");
  REQUIRE(report.flights.size() == 1);
  CHECK(report.flights[0].times.median_us == Approx(400));  // of two: the mean of both

  const TraceReport by_name = report_of(small_trace(), TraceKey::name);
  REQUIRE(by_name.groups.size() == 3);
  CHECK(by_name.groups[0].times.median_us == Approx(450));
  CHECK(by_name.groups[1].times.median_us == Approx(200));
  const TraceReport by_kernel = report_of(small_trace(), TraceKey::kernel);
  CHECK(by_kernel.groups[2].label == "(no kernel)");
  const TraceReport by_lane = report_of(small_trace(), TraceKey::lane);
  REQUIRE(by_lane.groups.size() == 2);
  CHECK(by_lane.groups[0].label == "cpu compute");
}

TEST_CASE("a report says how busy each thread was and where it paused longest", "[trace]") {
  const TraceReport report = report_of(small_trace(), TraceKey::op);
  REQUIRE(report.lanes.size() == 3);
  const TraceLane& compute = report.lanes[0];
  CHECK(compute.runs == 3);
  CHECK(compute.busy_us == Approx(850));
  CHECK(compute.utilisation == Approx(0.85));
  CHECK(compute.gaps == 1);
  CHECK(compute.longest_gap_us == Approx(50));
  CHECK(compute.longest_gap_begin_us == Approx(1400));
  CHECK(compute.before_gap == "conv1");
  CHECK(compute.behind_gap == "conv2");
  CHECK(report.lanes[1].gaps == 0);
  CHECK(report.lanes[2].runs == 0);
  CHECK(report.lanes[2].utilisation == 0);
  const TraceReport nothing = report_of(TraceFile{}, TraceKey::lane);
  CHECK(nothing.span_us == 0);
  CHECK_THAT(text_of(nothing, 0), Contains("0 runs on 0 threads in 0.000 s"));
}

TEST_CASE("tables have a row per group, and one for those left off", "[trace]") {
  const std::string all = text_of(report_of(small_trace(), TraceKey::name), 0);
  INFO(all);
  CHECK_THAT(all,
             Contains("4 runs on 3 threads in 0.001 s\n9 events came when the trace was full"));
  CHECK_THAT(all, Contains("conv2") && Contains("onednn:jit f32(3) -> f32(4)"));
  CHECK_THAT(all, Contains("cpu compute") && Contains("85.0%") && Contains("conv1 and conv2"));
  CHECK_THAT(all, Contains("Asynchronous") && Contains("push w"));
  const std::string one = text_of(report_of(small_trace(), TraceKey::name), 1);
  CHECK_THAT(one, Contains("2 more") && !Contains("simd"));
  TraceFile wild = small_trace();
  wild.works[0].name = "a\x1b[2Jb" + std::string(200, 'x');
  const std::string shown = text_of(report_of(wild, TraceKey::name), 0);
  CHECK(shown.find('\x1b') == std::string::npos);
  CHECK_THAT(shown, Contains("xx..xx"));
}

TEST_CASE("the verb prints what it read as text and JSON, or what is wrong", "[trace]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-trace-report.json";
  std::ofstream(path)
      << "{\"traceEvents\":[\n"
         R"({"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"cpu compute"}},)"
         "\n"
         R"({"name":"fc1","ph":"X","pid":1,"tid":1,"ts":0.0,"dur":2000.0,)"
         R"("args":{"op":"dot","kernel":"simd"}},)"
         "\n"
         R"({"name":"dropped","ph":"M","pid":1,"tid":0,"args":{"events":0}}]})"
         "\n";
  const Run text = run({"trace", path});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("OPERATION") && Contains("dot") && Contains("2.000"));
  CHECK_THAT(run({"trace", path, "--by", "name"}).out, Contains("fc1"));
  const Run json = run({"trace", path, "--json", "--by", "kernel", "--top", "0"});
  REQUIRE(Json::accept(json.out));
  const Json document = Json::parse(json.out);
  CHECK(document["by"] == "kernel");
  CHECK(document["groups_total"] == 1);
  CHECK(document["groups"][0]["label"] == "simd");
  CHECK(document["groups"][0]["total_seconds"] == Approx(0.002));
  CHECK(document["groups"][0]["inputs"].is_null());
  CHECK(document["lanes"][0]["utilisation"] == Approx(1.0));
  CHECK(document["lanes"][0]["before_gap"].is_null());
  CHECK(document["flights"].empty());

  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const Run cut = run({"trace", path});
  CHECK(cut.code == 3);
  CHECK_THAT(cut.err, Contains(path.string() + ": ends in line 3"));
  std::ofstream(path) << "[]";
  CHECK(run({"trace", path}).code == 3);
  std::filesystem::remove(path);
  const Run missing = run({"trace", path});
  CHECK(missing.code == 5);
  CHECK_THAT(missing.err, Contains(path.string()));
  CHECK(missing.out.empty());
  CHECK(run({"trace"}).code == 2);
  CHECK(run({"trace", path, "--by", "moon"}).code == 2);
  CHECK(run({"trace", path, "--top", "-1"}).code == 2);
}

}  // namespace
}  // namespace troupe::apps
