// SPDX-License-Identifier: Apache-2.0
// Who has connected to an endpoint: the text of its address, and the crowd that it belongs to.
// Pure functions; any thread.
#pragma once

#include <sys/socket.h>

#include <string>

namespace troupe::http {

/// "127.0.0.1:4711".
std::string address_text(const sockaddr_storage& name, socklen_t size);

/// Peers with one crowd are one host, as far as an address can say: an address of IPv4, however it
/// is written, or a network of IPv6 (64 bits), all of whose addresses one host may use.
std::string crowd_of(const sockaddr_storage& name);

}  // namespace troupe::http
