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

/// Peers that come faster than they are accepted wait here; whoever finds it full tries again.
constexpr int kBacklog = SOMAXCONN;

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

base::Result<Listener> Listener::open(const base::Address& address, const base::PortRange& ports,
                                      std::uint64_t resolve_ms) {
  const auto numbers = base::Resolver().resolve(address.host, resolve_ms);
  if (!numbers.ok()) return listen_error(address, numbers.status().text());
  Listener listener(address);
  const base::Listening listening{[&](const base::Address& number) { return listener.add(number); },
                                  [&] { listener.close(); }};
  TROUPE_TRY_ASSIGN(listener.address_.port, base::listen_at(address, ports, *numbers, listening));
  return listener;
}

/// `number` has no name.
base::Result<std::uint16_t> Listener::add(const base::Address& number) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(number.host.c_str(), std::to_string(number.port).c_str(), &hints, &found);
  if (failed != 0) return listen_error(number, gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> release(found, &freeaddrinfo);

  const int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return listen_error(number, std::strerror(errno));
  const int on = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 ||
      listen(descriptor, kBacklog) != 0) {
    const int why = errno;
    ::close(descriptor);
    return listen_error(number, std::strerror(why), base::errc_of_listening(why));
  }
  descriptors_.push_back(descriptor);
  return bound_port(descriptor);
}

Listener::Listener(Listener&& other) noexcept
    : descriptors_(std::exchange(other.descriptors_, {})), address_(std::move(other.address_)) {}

void Listener::close() {
  for (const int descriptor : std::exchange(descriptors_, {})) ::close(descriptor);
}

}  // namespace troupe::http
