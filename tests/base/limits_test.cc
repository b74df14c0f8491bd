// SPDX-License-Identifier: Apache-2.0
// The table of limits names every member once, and defaults keep their order.
#include "base/limits.h"

#include <set>

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

TEST_CASE("the defaults of the deadlines fit each other", "[limits]") {
  const Limits limits;
  CHECK(limits.ping_ms < limits.progress_ms);
  CHECK(limits.progress_ms < limits.silence_dead_ms);
  CHECK(limits.silence_dead_ms < limits.missing_log_ms);
  CHECK(limits.missing_log_ms < limits.stall_ms);
  CHECK(limits.retry_first_ms < limits.retry_most_ms);
  CHECK(limits.retry_most_ms < limits.letter_ask_ms);
  CHECK(limits.letter_ask_ms < limits.missing_log_ms);
}

}  // namespace
}  // namespace troupe::base
