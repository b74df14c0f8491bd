// SPDX-License-Identifier: Apache-2.0
// HOST:PORT: what is read, what is refused, what counts as loopback.
#include "base/address.h"

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("addresses survive being read and written", "[address]") {
  for (const char* text : {"127.0.0.1:0", "node-7.lan:65535", "[::1]:9470", "localhost:80"}) {
    CHECK(parse_address(text).value().to_string() == text);
  }
}

TEST_CASE("what is no address is refused with its text", "[address]") {
  for (const char* text : {"", ":80", "host", "host:", "host:65536", "host:-1", "host:80x",
                           "::1:80", "[::1]", "a b:80", "http://x:80"}) {
    const auto parsed = parse_address(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().text().find(std::string("'") + text + "'") != std::string::npos);
  }
}

TEST_CASE("only addresses of this machine are loopback", "[address]") {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"}) {
    CHECK(parse_address(text).value().loopback());
    CHECK(parse_address_within(text, Reach::loopback).ok());
  }
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "localhost.evil.org:1"}) {
    CHECK_FALSE(parse_address(text).value().loopback());
    const Status status = parse_address_within(text, Reach::loopback).status();
    CHECK(status.code() == Errc::permission_denied);
    CHECK(status.text().find(std::string("'") + text + "'") != std::string::npos);
    CHECK(status.text().find("TLS") != std::string::npos);
  }
  for (const char* text : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fd00::1]:2", "localhost:3"}) {
    CHECK(parse_address_within(text, Reach::network).ok());
  }
  for (const char* text : {"node1:80", "node-1.lab_a.example.:80", "1.2.3.4.example:80"}) {
    CHECK(parse_address_within(text, Reach::network)->to_string() == text);
    CHECK(parse_address_within(text, Reach::loopback).status().code() == Errc::permission_denied);
  }
  for (const char* text : {"10.0.0.256:80", "10.1:80", "-node:80", "a..b:80", ".a:80",
                           "n\xc3\xb6:80", "[node1]:80x", "[fe80::1%eth0]:80", "a/b:80"}) {
    CHECK(parse_address_within(text, Reach::network).status().code() == Errc::invalid_argument);
  }
  CHECK(parse_address_within("localhost:80", Reach::loopback)->to_string() == "127.0.0.1:80");
  CHECK(parse_address_within("80", Reach::loopback).status().code() == Errc::invalid_argument);
}

TEST_CASE("an address is its host's, or both are the loopback's") {
  CHECK(check_host("10.1.2.3:9", "10.1.2.3").ok());
  CHECK(check_host("127.0.0.5:9", "127.0.0.1").ok());
  CHECK(check_host("[::1]:9", "127.0.0.1").ok());
  CHECK(check_host("localhost:9", "::1").ok());
  for (const auto& [address, host] :
       {std::pair("10.1.2.4:9", "10.1.2.3"), std::pair("127.0.0.1:9", "10.1.2.3"),
        std::pair("10.1.2.3:9", "127.0.0.1"), std::pair("127.0.0.1:0", "127.0.0.1"),
        std::pair("127.0.0.1:9", "")}) {
    INFO(address << " " << host);
    CHECK(check_host(address, host).code() == Errc::permission_denied);
  }
  CHECK(check_host("127.0.0.1", "127.0.0.1").code() == Errc::invalid_argument);
  CHECK(check_host("node2:9", "10.1.2.3").code() == Errc::permission_denied);
}

TEST_CASE("where certificates tell who listens, an address may be of any machine") {
  for (const char* text : {"node2:9", "10.1.2.3:9", "[fd77::1]:9"}) {
    CHECK(check_host(text, std::nullopt).ok());
  }
  CHECK(check_host("node2:0", std::nullopt).code() == Errc::permission_denied);
  for (const char* text : {"evil.example/a?b=\n\x1b\"<x>@127.0.0.1:80", "user@node2:9", "10.1:9",
                           "node\x7f:9", "<b>:9", "node2#:9"}) {
    CHECK(check_host(text, std::nullopt).code() == Errc::invalid_argument);
    CHECK(check_host(text, "127.0.0.1").code() == Errc::invalid_argument);
  }
  CHECK(check_host("node2", std::nullopt).code() == Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::base
