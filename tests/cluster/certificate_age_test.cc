// SPDX-License-Identifier: Apache-2.0
// When the log speaks of a certificate's end.
#include "cluster/certificate_age.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kNow = 1'800'000'000;

TEST_CASE("a certificate's end is told once a day from two weeks before, and when it is there",
          "[certificate_age]") {
  CertificateAge age;
  const trust::Validity quarter{kNow, kNow + 90 * kDay};
  CHECK(age.look(quarter, kNow).empty());
  CHECK(age.look(quarter, kNow + 76 * kDay - 1).empty());
  CHECK(age.look(quarter, kNow + 76 * kDay) == "certificate is valid until 2027-04-15T08:00:00Z");
  CHECK(age.look(quarter, kNow + 77 * kDay - 1).empty());
  CHECK_FALSE(age.look(quarter, kNow + 77 * kDay).empty());
  CHECK_FALSE(age.look(quarter, kNow + 90 * kDay - 1).empty());
  // Its end is news, whatever was told before.
  CHECK(age.look(quarter, kNow + 90 * kDay) == "certificate was valid until 2027-04-15T08:00:00Z");
  CHECK(age.look(quarter, kNow + 90 * kDay + 1).empty());
  // A new one begins anew.
  const trust::Validity next{kNow + 90 * kDay, kNow + 180 * kDay};
  CHECK(age.look(next, kNow + 91 * kDay).empty());
}

TEST_CASE("of a short life the last third counts", "[certificate_age]") {
  CertificateAge age;
  const trust::Validity day{kNow, kNow + kDay};
  CHECK(age.look(day, kNow + kDay / 2).empty());
  CHECK_FALSE(age.look(day, kNow + kDay * 2 / 3).empty());
}

}  // namespace
}  // namespace troupe::cluster
