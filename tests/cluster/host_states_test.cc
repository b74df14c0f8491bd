// SPDX-License-Identifier: Apache-2.0
// Hosts that join, refuse, come late and go.
#include "cluster/host_states.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using Lines = std::vector<std::string>;

HostStates two_hosts() {
  return HostStates(parse_host_list("a:2,ann@b:3").value());
}

TEST_CASE("lines are put together from pieces, and shortened", "[hosts]") {
  HostStates states = two_hosts();
  CHECK(states.heard(0, "one\r\ntw") == Lines{"one"});
  CHECK(states.heard(1, "other\n\n") == Lines{"other"});
  CHECK(states.heard(0, "o\nthree") == Lines{"two"});
  const std::string long_line(10'000, 'x');
  const Lines lines = states.heard(1, long_line + "\n");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() == HostStates::kLineBytesMax);
}

TEST_CASE("all have joined when each has, once", "[hosts]") {
  HostStates states = two_hosts();
  states.joined({"a", "stranger"});
  CHECK_FALSE(states.all_joined());
  CHECK(states.has_joined(0));
  CHECK_FALSE(states.has_joined(1));
  CHECK(states.late(100).text() == "not joined within 100 ms: host 'b'");
  states.joined({"b"});
  CHECK(states.all_joined());
  CHECK(states.late(100).ok());
}

TEST_CASE("a host that ends before it has joined has refused, in ssh's words", "[hosts]") {
  HostStates states = two_hosts();
  states.joined({"a"});
  states.ended(0, "exit 1");  // it had joined
  CHECK(states.refused().ok());
  states.heard(1, "first\nann@b: Permission denied (publickey).");
  states.ended(1, "exit 255");
  CHECK(states.refused().code() == base::Errc::unavailable);
  CHECK(states.refused().text() ==
        "host 'b': ssh ended (exit 255) and no agent joined: first | ann@b: Permission denied "
        "(publickey).");
}

TEST_CASE("who is late is named with the last words", "[hosts]") {
  HostStates states = two_hosts();
  for (int i = 0; i < 10; ++i) states.heard(0, "line " + std::to_string(i) + "\n");
  states.heard(0, "half");
  CHECK(states.late(2'000).text() ==
        "not joined within 2000 ms: host 'a': line 5 | line 6 | line 7 | line 8 | line 9 | half; "
        "host 'b'");
}

TEST_CASE("a host that has ended has no slots", "[hosts]") {
  HostStates states = two_hosts();
  states.joined({"a", "b"});
  CHECK(states.slots_left() == 5);
  CHECK(states.losses().empty());
  states.heard(1, "Connection closed\n");
  states.ended(1, "exit 255");
  CHECK(states.slots_left() == 2);
  CHECK(states.losses() == "host 'b' has ended (exit 255): Connection closed");
  states.ended(0, "signal 9");
  CHECK(states.slots_left() == 0);
  CHECK(states.losses() ==
        "host 'a' has ended (signal 9); host 'b' has ended (exit 255): Connection closed");
}

}  // namespace
}  // namespace troupe::cluster
