// SPDX-License-Identifier: Apache-2.0
// The table of limits names every member once, and defaults keep their order.
#include "base/limits.h"

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("every limit has one row and a default above zero", "[limits]") {
  std::set<std::string_view> names;
  Limits limits;
  for (const LimitInfo& row : limit_table()) {
    CHECK(names.insert(row.name).second);
    CHECK(limits.*row.member > 0);
    limits.*row.member = 0;
  }
  for (const LimitInfo& row : limit_table()) {
    CHECK(limits.*row.member == 0);
    limits.*row.member = 1;
  }
}

TEST_CASE("limits that are not the defaults go through words and back", "[limits]") {
  CHECK(changed_limits({}).empty());
  Limits limits;
  limits.silence_dead_ms = 60'000;
  limits.connections_max = 9;
  const std::vector<std::string> words = changed_limits(limits);
  CHECK(words == std::vector<std::string>{"silence_dead_ms=60000", "connections_max=9"});
  Limits read;
  for (const std::string& word : words) CHECK(set_limit(read, word).ok());
  CHECK(changed_limits(read) == words);
  for (const char* wrong :
       {"", "=", "ping_ms", "ping_ms=", "ping_ms=x", "ping_ms=1s", "ping_ms=-1", "no_ms=5"}) {
    INFO(wrong);
    CHECK(set_limit(read, wrong).code() == Errc::invalid_argument);
  }
  CHECK(changed_limits(read) == words);
}

TEST_CASE("the defaults of the deadlines fit each other", "[limits]") {
  const Limits limits;
  CHECK(limits.ping_ms < limits.progress_ms);
  CHECK(limits.progress_ms < limits.silence_dead_ms);
  CHECK(limits.silence_dead_ms < limits.missing_log_ms);
  CHECK(limits.missing_log_ms < limits.stall_ms);
  CHECK(limits.retry_first_ms < limits.retry_most_ms);
  for (const LimitOrder& order : limit_orders()) CHECK(order.holds(limits));
  CHECK(limits.retry_most_ms < limits.letter_ask_ms);
  CHECK(limits.letter_ask_ms < limits.missing_log_ms);
}

/// 15000 as people read it: "15,000".
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

TEST_CASE("docs/limits.md has every limit with its default", "[limits]") {
  const std::filesystem::path page = std::filesystem::path(TROUPE_SOURCE_DIR) / "docs/limits.md";
  std::istringstream lines(read_text_file(page, 1 << 20).value());
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) rows.push_back(line);
  }
  REQUIRE(rows.size() == limit_table().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LimitInfo& row = limit_table()[i];
    const bool bytes = row.name.find("_bytes") != std::string_view::npos;
    const std::string unit = row.name.ends_with("_ms") ? " ms" : bytes ? " bytes" : "";
    const std::string begin = "| `" + std::string(row.name) + "` | " +
                              grouped(Limits().*row.member) + unit + " | " + grouped(row.least) +
                              " | ";
    INFO(rows[i]);
    CHECK(rows[i].starts_with(begin));
  }
}

TEST_CASE("a time that was meant in seconds is not allowed", "[limits]") {
  for (const LimitInfo& row : limit_table()) {
    CHECK(row.allows(Limits().*row.member));
    if (row.name == "silence_dead_ms" || row.name == "stall_ms") CHECK_FALSE(row.allows(30));
  }
}

}  // namespace
}  // namespace troupe::base
