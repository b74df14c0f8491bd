// SPDX-License-Identifier: Apache-2.0
// Published answers of HMAC-SHA256 (RFC 4231), and secrets that differ.
#include "base/secret.h"

#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

std::string hmac_hex(const std::vector<std::uint8_t>& key, std::string_view message) {
  return to_hex(hmac_sha256(key, message));
}

TEST_CASE("HMAC-SHA256 gives the published answers") {
  CHECK(hmac_hex(std::vector<std::uint8_t>(20, 0x0b), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_hex({'J', 'e', 'f', 'e'}, "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_hex(std::vector<std::uint8_t>(131, 0xaa),
                 "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("secrets are never the same, and proofs are compared whole") {
  std::set<Secret> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(random_secret());
  CHECK(seen.size() == 1'000);
  const Sha256Digest digest = hmac_sha256(*seen.begin(), "x");
  CHECK(equal_in_constant_time(digest, digest));
  for (const std::size_t at : {std::size_t{0}, std::size_t{15}, std::size_t{31}}) {
    Sha256Digest other = digest;
    other[at] ^= 1;
    CHECK_FALSE(equal_in_constant_time(digest, other));
  }
}

}  // namespace
}  // namespace troupe::base
