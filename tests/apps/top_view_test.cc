// SPDX-License-Identifier: Apache-2.0
// The picture of `troupe top` as lines, without a terminal: it fits, keeps its order and says what
// is wrong.
#include "apps/top_view.h"

#include <fmt/core.h>

#include <algorithm>

#include "tests/support/catch.h"

namespace troupe::apps {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;
using schemas::JobInfo;
using schemas::JobPhase;
using schemas::RankPhase;

JobInfo job(const std::string& id, JobPhase phase) {
  JobInfo info;
  info.id = id;
  info.phase = phase;
  return info;
}

/// One job that runs on two machines, one that waits, two that have ended.
TopView small() {
  TopView view;
  view.coordinator = "127.0.0.1:7700";
  view.age_ms = 400;
  JobInfo running = job("lenet", JobPhase::running);
  running.step = 120;
  running.steps_total = 480;
  running.samples = 7'680;
  running.samples_per_second = 1'749.6;
  running.loss = 0.4123;
  running.age_ms = 65'000;
  JobInfo waiting = job("large", JobPhase::pending);
  waiting.text = "waits for 8 worker slots";
  view.cluster.jobs = {job("old", JobPhase::failed), waiting, running,
                       job("newer", JobPhase::succeeded)};
  view.cluster.machines = {{"b", 2, 2, false}, {"a", 4, 1, true}};
  view.cluster.ranks = {{"lenet", 0, "a", RankPhase::training, 124, 900.0, 1'200},
                        {"lenet", 1, "b", RankPhase::done, 480, 0.0, 5'000},
                        {"lenet", 2, "b", RankPhase::training, 120, 850.0, 300, 5},
                        {"lenet", 3, "b", RankPhase::missing, 122, 850.0, 31'000}};
  return view;
}

/// The first words of the lines between a heading and the next empty line.
std::vector<std::string> first_words(const std::vector<std::string>& lines,
                                     const std::string& heading) {
  std::vector<std::string> words;
  const auto begins = [&](const std::string& line) {
    const std::size_t at = line.find_first_not_of(' ');
    return at != std::string::npos && line.compare(at, heading.size(), heading) == 0;
  };
  auto at = std::find_if(lines.begin(), lines.end(), begins);
  REQUIRE(at != lines.end());
  for (++at; at != lines.end() && !at->empty(); ++at) {
    const std::size_t begin = at->find_first_not_of(' ');
    words.push_back(at->substr(begin, at->find(' ', begin) - begin));
  }
  return words;
}

using Words = std::vector<std::string>;

TEST_CASE("a picture has jobs, machines and ranks in their order", "[top]") {
  const std::vector<std::string> lines = draw_top(small(), {});
  CHECK(lines[0] ==
        "127.0.0.1:7700, heard 0.4 s ago: 4 jobs, 1 at work; 2 machines, 3/6 slots used");
  CHECK(first_words(lines, "JOB") == Words{"lenet", "large", "newer", "old"});
  CHECK(first_words(lines, "MACHINE") == Words{"a", "b"});
  // Missing, then by steps, done last.
  CHECK(first_words(lines, "RANK") == Words{"3", "2", "0", "1"});
  const auto line_of = [&](const std::string& begin) {
    return *std::find_if(lines.begin(), lines.end(),
                         [&](const std::string& line) { return line.starts_with(begin); });
  };
  CHECK_THAT(line_of("lenet"), Contains("running") && Contains("120/480") && Contains("25%") &&
                                   Contains("1,750") && Contains("0.4123") && Contains("1:05"));
  CHECK_THAT(line_of("lenet"), Contains(" 360  "));  // LAG: 480 - 120 steps
  CHECK_THAT(line_of("large"), Contains("pending") && Contains("waits for 8 worker slots"));
  CHECK_THAT(line_of("a "), Contains("1/4") && Contains("cut"));
  CHECK_THAT(line_of("   3"), Contains("missing") && Contains("358") && Contains("31s"));
  for (const std::string& line : lines) CHECK(line.find('\033') == std::string::npos);
}

TEST_CASE("a picture says what is left off, and which machine offers nothing", "[top]") {
  TopView view = small();
  view.cluster.text = "3 older jobs left off";
  view.cluster.machines[1].withheld = "a.pem: its certificate held until a day";
  const std::vector<std::string> lines = draw_top(view, {});
  CHECK_THAT(lines[0], Contains(": 4 jobs, 1 at work, 3 older jobs left off; 2 machines"));
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("a ") &&
                 line.ends_with("offers no slots: a.pem: its certificate held until a day");
        }) == 1);
  const Json json = json_of(view);
  CHECK(json["note"] == "3 older jobs left off");
  CHECK(json["machines"][0]["withheld"] == "a.pem: its certificate held until a day");
  CHECK(json["machines"][1]["withheld"].is_null());
}

TEST_CASE("a picture has GPUs, and says which of them are lost", "[top]") {
  TopView view = small();
  schemas::MachineInfo& machine = view.cluster.machines[0];
  machine.gpus = 4;
  machine.gpus_used = 3;
  machine.lost_gpus = {{1, "uncorrectable errors"}, {3, "off\nthe bus"}};
  const std::vector<std::string> lines = draw_top(view, {});
  CHECK_THAT(lines[0], Contains("2 machines, 3/6 slots and 3/4 GPUs used"));
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("b ") && line.find("  3/4  up") != std::string::npos &&
                 line.ends_with("offers no more: GPU 1: uncorrectable errors; GPU 3: off?the bus");
        }) == 1);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("a ") && line.find("  1/4     -  cut") != std::string::npos;
        }) == 1);
  const Json json = json_of(view)["machines"][1];
  CHECK(json["gpus"] == 4);
  CHECK(json["gpus_used"] == 3);
  CHECK(json["gpus_lost"] == Json::array({{{"index", 1}, {"why", "uncorrectable errors"}},
                                          {{"index", 3}, {"why", "off\nthe bus"}}}));
}

TEST_CASE("ranks of equal steps keep their places whatever their speed", "[top]") {
  TopView view = small();
  view.cluster.ranks.clear();
  for (std::uint32_t rank = 0; rank < 12; ++rank) {
    view.cluster.ranks.push_back(
        {"lenet", rank, "a", RankPhase::training, 7, 100.0 / (rank + 1), rank * 100});
  }
  const Words before = first_words(draw_top(view, {}), "RANK");
  std::reverse(view.cluster.ranks.begin(), view.cluster.ranks.end());
  for (auto& rank : view.cluster.ranks) rank.samples_per_second *= rank.rank;
  CHECK(first_words(draw_top(view, {}), "RANK") == before);
  CHECK(before.front() == "0");
  CHECK(before.back() == "11");
}

TEST_CASE("every window is filled and none is exceeded", "[top]") {
  TopView view = small();
  for (int i = 0; i < 50; ++i) {
    view.cluster.jobs.push_back(job(fmt::format("job-{}", i), JobPhase::running));
    view.cluster.machines.push_back({fmt::format("machine-{}", i), 2, 0, false});
    view.cluster.ranks.push_back({fmt::format("job-{}", i), 0, "a", RankPhase::training, 1, 0, 0});
  }
  for (const std::size_t columns : {1, 2, 20, 80, 200}) {
    for (const std::size_t rows : {1, 2, 3, 4, 5, 6, 7, 10, 24, 60, 500}) {
      for (const bool trouble : {false, true}) {
        INFO(columns << " x " << rows);
        view.trouble = trouble ? "lost the coordinator" : "";
        const std::vector<std::string> lines = draw_top(view, {columns, rows, false});
        CHECK(lines.size() <= rows);
        if (rows <= 60) CHECK(lines.size() >= rows - std::min<std::size_t>(rows, 4));
        for (const std::string& line : lines) CHECK(line.size() <= columns);
      }
    }
  }
  const std::vector<std::string> lines = draw_top(view, {80, 24, false});
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("... ") && line.ends_with(" more");
        }) == 3);
  // What one table does not need the others get.
  view.cluster.machines.resize(1);
  view.cluster.ranks.resize(1);
  CHECK(first_words(draw_top(view, {80, 24, false}), "JOB").size() > 10);
  CHECK(draw_top({}, {80, 24, false}).size() == 7);
}

TEST_CASE("colour has no width and only its time", "[top]") {
  TopView view = small();
  view.trouble = "lost the coordinator";
  view.left_ms = 9'400;
  const TopWindow plain{60, 24, false};
  const TopWindow painted{60, 24, true};
  const std::vector<std::string> expected = draw_top(view, plain);
  std::vector<std::string> lines = draw_top(view, painted);
  REQUIRE(lines.size() == expected.size());
  CHECK(lines != expected);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string bare;
    for (std::size_t at = 0; at < lines[i].size(); ++at) {
      if (lines[i][at] == '\033') {
        at = lines[i].find('m', at);
      } else {
        bare += lines[i][at];
      }
    }
    CHECK(bare == expected[i]);
  }
  CHECK(expected[1] == "tries again for 9 s: lost the coordinator");
}

TEST_CASE("what others have written cannot leave its line", "[top]") {
  TopView view = small();
  view.cluster.jobs[0].text = "two\nlines\033[2J\xff\xc3\xa9\x7f";
  view.cluster.machines[0].name = "m\r\xff";
  for (const std::string& line : draw_top(view, {})) {
    CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  }
  const std::string text = json_text(json_of(view));
  CHECK(Json::accept(text));
}

TEST_CASE("JSON has the picture's facts in its order", "[top]") {
  const Json json = json_of(small());
  CHECK(json["coordinator"] == "127.0.0.1:7700");
  REQUIRE(json["jobs"].size() == 4);
  CHECK(json["jobs"][0]["id"] == "lenet");
  CHECK(json["jobs"][0]["lag_steps"] == 360);
  CHECK(json["jobs"][0]["heard_seconds"] == 0.3);
  CHECK(json["jobs"][1]["lag_steps"].is_null());
  CHECK(json["machines"][0] == Json({{"name", "a"},
                                     {"slots", 4},
                                     {"slots_used", 1},
                                     {"gpus", 0},
                                     {"gpus_used", 0},
                                     {"gpus_lost", Json::array()},
                                     {"link", "cut"},
                                     {"withheld", nullptr}}));
  CHECK(json["note"].is_null());
  CHECK(json["ranks"][1] == Json({{"rank", 2},
                                  {"job", "lenet"},
                                  {"machine", "b"},
                                  {"gpu", 5},
                                  {"phase", "training"},
                                  {"step", 120},
                                  {"behind_steps", 360},
                                  {"samples_per_second", 850.0},
                                  {"heard_seconds", 0.3}}));
  CHECK(json["ranks"][0]["gpu"].is_null());
}

}  // namespace
}  // namespace troupe::apps
