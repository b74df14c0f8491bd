// SPDX-License-Identifier: Apache-2.0
// Windows bound what is under way, and never less than a message of each kind.
#include "base/credit.h"

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("credit is the windows, or a message where that is larger") {
  Limits limits;
  limits.push_window_bytes = limits.reply_window_bytes = 1 << 26;
  limits.control_window_bytes = 1 << 25;
  CHECK(connection_credit(limits, 100) == (1 << 27) + (1 << 25));
  limits.push_window_bytes = limits.reply_window_bytes = limits.control_window_bytes = 1;
  limits.control_header_bytes_max = 5'000;
  limits.data_header_bytes_max = 1'000;
  limits.payload_bytes_max = 7'000;
  CHECK(connection_credit(limits, 100) == 3 * 8'100);
  limits.control_header_bytes_max = 9'000;
  CHECK(connection_credit(limits, 100) == 3 * 9'100);
}

}  // namespace
}  // namespace troupe::base
