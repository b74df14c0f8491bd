// SPDX-License-Identifier: Apache-2.0
// Reading addresses of sockets.
#include "http/peer.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstring>

namespace troupe::http {
namespace {

/// Bytes of the network in an address of IPv6.
constexpr std::size_t kNetworkBytes = 8;

std::string bytes_of(const void* begin, std::size_t size) {
  return {static_cast<const char*>(begin), size};
}

}  // namespace

std::string address_text(const sockaddr_storage& name, socklen_t size) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  (void)getnameinfo(reinterpret_cast<const sockaddr*>(&name), size, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{}:{}", host, port);
}

std::string crowd_of(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &name, sizeof four);
    return bytes_of(&four.sin_addr, sizeof four.sin_addr);
  }
  if (name.ss_family != AF_INET6) return "";
  sockaddr_in6 six{};
  std::memcpy(&six, &name, sizeof six);
  const unsigned char* bytes = six.sin6_addr.s6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return bytes_of(bytes + 12, sizeof(in_addr));
  return bytes_of(bytes, kNetworkBytes);
}

}  // namespace troupe::http
