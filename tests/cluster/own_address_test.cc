// SPDX-License-Identifier: Apache-2.0
// The own end of routes, on the loopback, which every machine has.
#include "cluster/own_address.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using Catch::Contains;

TEST_CASE("the loopback is reached from the loopback", "[hosts]") {
  CHECK(own_address_toward("127.0.0.1").value() == "127.0.0.1");
  CHECK(own_address_toward("::1").value() == "::1");
  CHECK(own_address_toward_hosts({"127.0.0.1"}).value() == "127.0.0.1");
}

TEST_CASE("what is no number, and a name that nobody knows", "[hosts]") {
  CHECK(own_address_toward("node1").status().code() == base::Errc::invalid_argument);
  const auto unknown = own_address_toward_hosts({"127.0.0.1", "no-such-host.invalid"});
  CHECK_THAT(unknown.status().text(), Contains("no-such-host.invalid"));
}

}  // namespace
}  // namespace troupe::cluster
