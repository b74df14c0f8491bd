// SPDX-License-Identifier: Apache-2.0
// A datagram socket that is connected knows its own end.
#include "cluster/own_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/address.h"
#include "base/resolver.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using base::Result;

/// Looking up one name takes at most so long.
constexpr std::uint64_t kLookUpMs = 10'000;

}  // namespace

Result<std::string> own_address_toward(const std::string& number) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // The port is never used: "discard".
  if (::getaddrinfo(number.c_str(), "9", &hints, &found) != 0) {
    return base::error(Errc::invalid_argument, "'{}' is no address", number);
  }
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool known = socket >= 0 && ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const int fault = errno;
  if (socket >= 0) ::close(socket);
  ::freeaddrinfo(found);
  std::array<char, NI_MAXHOST> text{};
  if (!known || ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text.data(), text.size(),
                              nullptr, 0, NI_NUMERICHOST) != 0) {
    return base::error(Errc::unavailable, "no route to {}: {}", number, std::strerror(fault));
  }
  return std::string(text.data());
}

Result<std::string> own_address_toward_hosts(const std::vector<std::string>& hosts) {
  base::Resolver resolver;
  std::string loopback = "127.0.0.1";
  for (const std::string& host : hosts) {
    TROUPE_TRY_ASSIGN(const base::HostNumbers numbers, resolver.resolve(host, kLookUpMs));
    base::Status fault = base::error(Errc::unavailable, "host '{}' has no address", host);
    std::string own;
    for (const std::string& number : numbers) {
      auto toward = own_address_toward(number);
      if (toward.ok()) {
        own = *std::move(toward);
        break;
      }
      fault = toward.status();
    }
    if (own.empty()) return fault;
    if (!base::Address{own, 0}.loopback()) return own;
    loopback = own;
  }
  return loopback;
}

}  // namespace troupe::cluster
