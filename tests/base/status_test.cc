// SPDX-License-Identifier: Apache-2.0
// Status and Result: codes, texts, context, early return.
#include "base/status.h"

#include <catch2/catch.hpp>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

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

Result<int> sum_of_halves(int a, int b) {
  // clang-format off
  TROUPE_TRY_ASSIGN(const int x, half(a)); TROUPE_TRY_ASSIGN(const int y, half(b));
  // clang-format on
  return x + y;
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

TEST_CASE("two results are assigned on one line", "[status]") {
  CHECK(sum_of_halves(2, 4).value() == 3);
  CHECK(sum_of_halves(2, 5).status().text() == "5 is odd");
}

TEST_CASE("the value of a temporary result outlives the result", "[status]") {
  using Numbers = Result<std::vector<int>>;
  static_assert(std::is_same_v<decltype(std::declval<Numbers>().value()), std::vector<int>>);
  static_assert(std::is_same_v<decltype(*std::declval<Numbers>()), std::vector<int>>);
  int sum = 0;
  for (int n : Numbers(std::vector<int>(100, 2)).value()) sum += n;
  CHECK(sum == 200);
  // A value that only moves can be taken too.
  Result<std::unique_ptr<int>> own(std::make_unique<int>(7));
  CHECK(**std::move(own) == 7);
}

}  // namespace
}  // namespace troupe::base
