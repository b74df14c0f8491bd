// SPDX-License-Identifier: Apache-2.0
// Who gives way when too many connections wait to greet.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "link/listener.h"
#include "tests/link/link_support.h"

namespace troupe::link::test {
namespace {

TEST_CASE("a crowd of silent connections keeps nobody out", "[listener]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 60'000;
  Server server(limits);
  std::vector<Plain> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(Plain::connect(server.address));
  Client client;
  REQUIRE(client.dial(server.address).ok());
  CHECK(client.recorder->wait_up());
  // At most 64 are held; the oldest have given way.
  for (int i = 0; i < 36; ++i) CHECK(crowd[static_cast<std::size_t>(i)].closed_by_peer());
  CHECK_FALSE(crowd.back().readable(0));
}

TEST_CASE("a crowd of one host keeps no other host out, nor who has begun to greet", "[listener]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 60'000;
  Server server(limits);
  const std::string begun = frame_bytes(hello_of(1), 0).substr(0, 30);
  const Plain far = Plain::connect_from("127.0.0.2", server.address);
  const Plain slow = Plain::connect(server.address);
  REQUIRE(slow.send(begun));
  // Until the listener has read it: it serves in the order in which bytes come.
  Client before;
  REQUIRE(before.dial(server.address).ok());
  REQUIRE(before.recorder->wait_up());
  std::vector<Plain> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(Plain::connect(server.address));
  Client client;
  REQUIRE(client.dial(server.address).ok());
  CHECK(client.recorder->wait_up());
  for (int i = 0; i < 36; ++i) CHECK(crowd[static_cast<std::size_t>(i)].closed_by_peer());
  CHECK_FALSE(far.readable(0));
  CHECK_FALSE(slow.readable(0));
  CHECK_FALSE(crowd.back().readable(0));
}

TEST_CASE("among strangers of many addresses the oldest gives way, not who has two connections",
          "[listener]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 60'000;
  Server server(limits);
  std::vector<Plain> strangers;
  for (int i = 1; i <= 62; ++i) {
    strangers.push_back(Plain::connect_from(fmt::format("127.0.1.{}", i).c_str(), server.address));
  }
  const Plain first = Plain::connect(server.address);
  const Plain second = Plain::connect(server.address);
  const Plain last = Plain::connect_from("127.0.1.63", server.address);
  CHECK(strangers.front().closed_by_peer());
  CHECK_FALSE(first.readable(0));
  CHECK_FALSE(second.readable(0));
  CHECK_FALSE(last.readable(0));
}

}  // namespace
}  // namespace troupe::link::test
