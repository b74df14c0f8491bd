// SPDX-License-Identifier: Apache-2.0
// Reading addresses of sockets.
#include "http/peer.h"

#include <fmt/core.h>
#include <netdb.h>

namespace troupe::http {

std::string address_text(const sockaddr_storage& name, socklen_t size) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  (void)getnameinfo(reinterpret_cast<const sockaddr*>(&name), size, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return fmt::format("{}:{}", host, port);
}

}  // namespace troupe::http
