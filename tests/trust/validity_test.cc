// SPDX-License-Identifier: Apache-2.0
// Times that cannot be written are refused, where they would be signed.
#include "trust/validity.h"

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/token.h"

namespace troupe::trust {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;

TEST_CASE("nothing holds beyond the year 9999, or ends before it begins") {
  CHECK(check_validity({kNow, kLatestTime}).ok());
  CHECK(check_validity({kNow, kNow}).ok());
  CHECK(check_validity({kNow, kLatestTime + 1}).text() ==
        "it would be valid until 10000-01-01T00:00:00Z; 9999-12-31T23:59:59Z is the last day that "
        "can "
        "be written");
  CHECK(check_validity({kNow, kNow - 1}).code() == base::Errc::invalid_argument);
}

TEST_CASE("certificates and tokens keep to it") {
  const Validity late{kNow, kNow + 3'000'000LL * 86'400};
  const Validity last{kNow, kLatestTime};
  CHECK(make_authority("lab", late).status().code() == base::Errc::invalid_argument);
  const auto authority = make_authority("lab", last).value();
  CHECK(read_certificate(authority.certificate)->validity == last);
  CHECK(make_certificate({"lab", Role::agent, "a"}, late, authority).status().code() ==
        base::Errc::invalid_argument);
  const TestFolder folder("validity-test");
  auto book = TokenBook::open(folder.path()).value();
  CHECK(book.make("ann", {Right::read}, late).status().code() == base::Errc::invalid_argument);
  CHECK(book.tokens().empty());
  CHECK(book.make("ann", {Right::read}, last).ok());
}

}  // namespace
}  // namespace troupe::trust
