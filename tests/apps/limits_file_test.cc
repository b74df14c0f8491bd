// SPDX-License-Identifier: Apache-2.0
// Limits files: units, errors at their places, and limits that contradict each other.
#include "apps/limits_file.h"

#include <filesystem>
#include <fstream>

#include "tests/apps/small_job.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::apps {
namespace {

using Catch::Contains;

TEST_CASE("limits come from a file with units", "[limits_file]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-limits-test.toml";
  std::ofstream(path) << "ping_ms = 50\nsilence_dead_ms = \"2s\"\nsend_queue_bytes_max = \"8m\"\n";
  const LimitsFile file = read_limits_file(path.string(), base::FileKind::regular);
  CHECK(lines_of(file.errors) == Lines{});
  CHECK(file.limits.ping_ms == 50);
  CHECK(file.limits.silence_dead_ms == 2'000);
  CHECK(file.limits.send_queue_bytes_max == 8u << 20);
  CHECK(file.limits.stall_ms == base::Limits().stall_ms);
  const JobFile job = parse("", {"limits=" + path.string()});
  CHECK(lines_of(job.errors) == Lines{});
  CHECK(job.spec.limits.ping_ms == 50);
  std::ofstream(path) << "pingms = 50\n";
  CHECK_THAT(parse("", {"limits=" + path.string()}).errors.at(0).to_string(),
             Contains("troupe-limits-test.toml:1:1: error: pingms: unknown key"));
  std::filesystem::remove(path);
  CHECK_THAT(read_limits_file(path.string(), base::FileKind::regular).errors.at(0).to_string(),
             Contains(path.string()));
}

TEST_CASE("limits of a job that contradict each other are named", "[limits_file]") {
  const auto [toml, error] = GENERATE(table<std::string, std::string>({
      {"[limits]\nsilence_dead_ms = 500",
       "limits.silence_dead_ms: silence_dead_ms (500) must be at least 2 times ping_ms (1000)"},
      {"[limits]\nping_ms = \"20s\"",
       "limits.ping_ms: silence_dead_ms (15000) must be at least 2 times ping_ms (20000)"},
      {"[limits]\nretry_first_ms = 3000",
       "limits.retry_first_ms: retry_most_ms (2000) must be at least retry_first_ms (3000)"},
  }));
  CHECK_THAT(only_error(toml), Contains(error));
  // Of a value that is wrong nothing more is said.
  CHECK(parse("[limits]\nping_ms = \"20s\"\nsilence_dead_ms = \"bad\"").errors.size() == 1);
  CHECK(parse("[limits]\nping_ms = 200\nsilence_dead_ms = 400").errors.empty());
}

TEST_CASE("limits of a file that contradict each other are named once", "[limits_file]") {
  const TestFolder folder("limits-order");
  const auto path = folder.path() / "limits.toml";
  std::ofstream(path) << "stall_ms = \"9m\"\nsilence_dead_ms = \"1s\"\n";
  const Lines expected = {
      path.string() +
      ":2:19: error: silence_dead_ms: silence_dead_ms (1000) must be at least 2 "
      "times ping_ms (1000)"};
  CHECK(lines_of(read_limits_file(path, base::FileKind::regular).errors) == expected);
  CHECK(lines_of(parse("", {"limits=" + path.string()}).errors) == expected);
}

}  // namespace
}  // namespace troupe::apps
