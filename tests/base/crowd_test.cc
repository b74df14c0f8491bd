// SPDX-License-Identifier: Apache-2.0
// Which peers count as one host.
#include "base/crowd.h"

#include <vector>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("a crowd is an address of IPv4 or a network of IPv6", "[crowd]") {
  CHECK(crowd_of("127.0.0.2") == "127.0.0.2");
  CHECK(crowd_of("10.0.0.1") != crowd_of("10.0.0.2"));
  CHECK(crowd_of("10.0.0.1") == crowd_of("::ffff:10.0.0.1"));
  CHECK(crowd_of("2001:db8:0:1::1") == crowd_of("2001:db8:0:1:ffff::2"));
  CHECK(crowd_of("2001:db8:0:1::1") != crowd_of("2001:db8:0:2::1"));
  CHECK(crowd_of("2001:db8::1") == crowd_of("2001:db8::ffff:2"));
  CHECK(crowd_of("2001:db8::1") != crowd_of("2001:db8:0:1::1"));
  CHECK(crowd_of("fe80::1%eth0") == crowd_of("fe80::2%eth1"));
  CHECK(crowd_of("node1") == "node1");
}

TEST_CASE("the lightest and oldest gives way, of the largest crowd where there is one", "[crowd]") {
  using All = std::vector<Waiting>;
  CHECK(!who_gives_way({}, 16));
  CHECK(who_gives_way(All{{"a", 0}, {"b", 0}}, 16) == 0);
  CHECK(who_gives_way(All{{"a", 1}, {"b", 0}, {"c", 0}}, 16) == 1);
  // Two of sixteen are no crowd; three are one, however much they have said.
  CHECK(who_gives_way(All{{"a", 0}, {"b", 7}, {"b", 5}}, 16) == 0);
  CHECK(who_gives_way(All{{"a", 0}, {"b", 7}, {"b", 5}, {"b", 5}}, 16) == 2);
  // Two crowds of one size: both.
  CHECK(who_gives_way(All{{"a", 0}, {"b", 3}, {"c", 1}, {"b", 3}, {"c", 2}}, 8) == 2);
}

}  // namespace
}  // namespace troupe::base
