// SPDX-License-Identifier: Apache-2.0
// Binding and listening.
#include "http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace troupe::http {
namespace {

constexpr int kBacklog = 128;

base::Status listen_error(const base::Address& address, std::string_view reason,
                          base::Errc code = base::Errc::unavailable) {
  return base::error(code, "cannot serve HTTP on {}: {}", address.to_string(), reason);
}

std::uint16_t bound_port(int descriptor) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

}  // namespace

base::Result<Listener> Listener::open(const base::Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) return listen_error(address, gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> release(found, &freeaddrinfo);

  const int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return listen_error(address, std::strerror(errno));
  Listener listener(descriptor, address);
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 ||
      listen(descriptor, kBacklog) != 0) {
    const bool in_use = errno == EADDRINUSE;
    return listen_error(address, std::strerror(errno),
                        in_use ? base::Errc::resource_exhausted : base::Errc::unavailable);
  }
  listener.address_.port = bound_port(descriptor);
  return listener;
}

Listener::Listener(Listener&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), address_(std::move(other.address_)) {}

void Listener::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

}  // namespace troupe::http
