// SPDX-License-Identifier: Apache-2.0
// Status and Result: codes, texts, context, early return.
#include "base/status.h"

#include <catch2/catch.hpp>

namespace troupe::base {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return error(Errc::invalid_argument, "{} is odd", n);
  return n / 2;
}

Result<int> quarter(int n) {
  TROUPE_TRY_ASSIGN(const int h, half(n));
  return half(h);
}

TEST_CASE("every error code has a name and survives the wire", "[status]") {
  for (std::uint16_t i = 0; i <= static_cast<std::uint16_t>(Errc::internal); ++i) {
    const auto code = static_cast<Errc>(i);
    CHECK_FALSE(errc_name(code).empty());
    CHECK(errc_from_wire(i) == code);
  }
  CHECK(errc_from_wire(60000) == Errc::internal);
}

TEST_CASE("results carry values or errors through early returns", "[status]") {
  CHECK(quarter(12).value() == 3);
  const Result<int> bad = quarter(6);
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.status().code() == Errc::invalid_argument);
  CHECK(bad.status().text() == "3 is odd");
  CHECK(bad.status().with_context("key 'w'").to_string() == "invalid_argument: key 'w': 3 is odd");
  CHECK(Status().with_context("anything").ok());
}

}  // namespace
}  // namespace troupe::base
