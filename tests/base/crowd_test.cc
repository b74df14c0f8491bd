// SPDX-License-Identifier: Apache-2.0
// Which peers count as one host.
#include "base/crowd.h"

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

}  // namespace
}  // namespace troupe::base
