// SPDX-License-Identifier: Apache-2.0
// The text of an address.
#include "http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "tests/support/catch.h"

namespace troupe::http {
namespace {

sockaddr_storage name_of(const std::string& host, std::uint16_t port) {
  sockaddr_storage name{};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    std::memcpy(&name, &four, sizeof four);
  } else {
    REQUIRE(inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1);
    std::memcpy(&name, &six, sizeof six);
  }
  return name;
}

TEST_CASE("addresses are told with their port", "[peer]") {
  CHECK(address_text(name_of("10.0.0.1", 4711), sizeof(sockaddr_in)) == "10.0.0.1:4711");
  CHECK(address_text(name_of("::1", 80), sizeof(sockaddr_in6)) == "::1:80");
}

}  // namespace
}  // namespace troupe::http
