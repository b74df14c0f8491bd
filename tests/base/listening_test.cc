// SPDX-License-Identifier: Apache-2.0
// Ports: ranges as people write them, the first free one, all addresses of a name on one port.
#include "base/listening.h"

#include <cerrno>
#include <set>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("a range of ports has two ends", "[listening]") {
  CHECK(parse_port_range("7800-7899").value() == PortRange{7800, 7899});
  CHECK(parse_port_range("1-65535").value().to_string() == "1-65535");
  CHECK(parse_port_range("80-80").value() == PortRange{80, 80});
  CHECK(PortRange{}.any());
  for (const char* text :
       {"", "7800", "7899-7800", "0-80", "80-65536", "-80", "80-", "a-b", "1-2-3", "80 - 90"}) {
    const auto ports = parse_port_range(text);
    REQUIRE_FALSE(ports.ok());
    CHECK_THAT(ports.status().text(),
               Catch::StartsWith("'" + std::string(text) + "' is no range of ports"));
  }
}

TEST_CASE("what hinders a socket from listening is told apart", "[listening]") {
  CHECK(errc_of_listening(EADDRINUSE) == Errc::resource_exhausted);
  CHECK(errc_of_listening(EACCES) == Errc::permission_denied);
  CHECK(errc_of_listening(EADDRNOTAVAIL) == Errc::unavailable);
}

/// Pretends to listen; what is in `used` is in use, `missing` is no number of this machine.
struct Machine {
  std::set<std::string> used;
  std::string missing;
  std::vector<std::string> open;
  Listening listening() {
    return {[this](const Address& at) -> Result<std::uint16_t> {
              if (at.host == missing) return error(Errc::unavailable, "{} is not here", at.host);
              const std::uint16_t port = at.port == 0 ? next++ : at.port;
              const std::string text = Address{at.host, port}.to_string();
              if (used.count(text) != 0) return error(Errc::resource_exhausted, "{} in use", text);
              open.push_back(text);
              return port;
            },
            [this] { open.clear(); }};
  }
  std::uint16_t next = 40'000;  // what the system would choose
};

TEST_CASE("the first free port of a range is taken, and a full range is named", "[listening]") {
  Machine machine;
  machine.used = {"10.0.0.1:7800", "10.0.0.1:7801"};
  const HostNumbers numbers{"10.0.0.1"};
  CHECK(listen_at({"node1", 0}, {7800, 7802}, numbers, machine.listening()).value() == 7802);
  const Status full = listen_at({"node1", 0}, {7800, 7801}, numbers, machine.listening()).status();
  CHECK(full.code() == Errc::resource_exhausted);
  CHECK_THAT(full.text(), Catch::StartsWith("all ports 7800-7801 of node1 are in use"));
  // A port of its own is none of the range.
  CHECK(listen_at({"node1", 99}, {7800, 7801}, numbers, machine.listening()).value() == 99);
}

TEST_CASE("all addresses of a name that are here get one port", "[listening]") {
  Machine machine;
  const HostNumbers numbers{"fd77::1", "10.0.0.1", "10.9.9.9"};
  machine.missing = "10.9.9.9";
  machine.used = {"10.0.0.1:40000"};
  CHECK(listen_at({"node1", 0}, {}, numbers, machine.listening()).value() == 40'001);
  CHECK(machine.open == std::vector<std::string>{"[fd77::1]:40001", "10.0.0.1:40001"});
  machine.open.clear();
  machine.used = {"10.0.0.1:80"};
  CHECK(listen_at({"node1", 80}, {}, numbers, machine.listening()).status().text() ==
        "10.0.0.1:80 in use");
  CHECK(machine.open.empty());
  CHECK(listen_at({"node1", 80}, {}, {"10.9.9.9"}, machine.listening()).status().text() ==
        "10.9.9.9 is not here");
}

}  // namespace
}  // namespace troupe::base
