// SPDX-License-Identifier: Apache-2.0
// Status and Result: codes, texts, context, early return.
#include "base/status.h"

#include <memory>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

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

/// Somebody's own macro: what it stands for is on one line.
#define TRY_BOTH(a, from_a, b, from_b) \
  TROUPE_TRY_ASSIGN(a, from_a);        \
  TROUPE_TRY_ASSIGN(b, from_b)

Result<int> sum_of_halves(int a, int b) {
  TRY_BOTH(const int x, half(a), const int y, half(b));
  return x + y;
}

/// Counts how many of its kind live.
struct Counted {
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  ~Counted() { --alive; }
  std::vector<int> numbers = {1, 2, 3};
  std::vector<int>::const_iterator begin() const { return numbers.begin(); }
  std::vector<int>::const_iterator end() const { return numbers.end(); }
  static inline int alive = 0;
};

TEST_CASE("two results are tried on one line", "[status]") {
  CHECK(sum_of_halves(4, 6).value() == 5);
  CHECK(sum_of_halves(4, 5).status().text() == "5 is odd");
}

TEST_CASE("the value of a temporary result lives as long as a loop over it", "[status]") {
  int sum = 0;
  for (const int number : Result<Counted>(Counted()).value()) {
    CHECK(Counted::alive == 1);
    sum += number;
  }
  for (const int number : *Result<Counted>(Counted())) {
    CHECK(Counted::alive == 1);
    sum += number;
  }
  CHECK(sum == 12);
  CHECK(Counted::alive == 0);
}

TEST_CASE("every error code has a name and survives the wire", "[status]") {
  for (std::uint16_t i = 0; i <= static_cast<std::uint16_t>(Errc::io_error); ++i) {
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

TEST_CASE("the text of a context is made for an error alone", "[status]") {
  int made = 0;
  const auto text = [&made] {
    ++made;
    return std::string("key 'w'");
  };
  CHECK(Status().with_context(text).ok());
  CHECK(made == 0);
  const Status bad = error(Errc::data_loss, "torn").with_context(text);
  CHECK(bad.to_string() == "data_loss: key 'w': torn");
  CHECK(made == 1);
}

TEST_CASE("a value that only moves can be taken out of a result", "[status]") {
  Result<std::unique_ptr<int>> own(std::make_unique<int>(7));
  CHECK(**std::move(own) == 7);
}

}  // namespace
}  // namespace troupe::base
