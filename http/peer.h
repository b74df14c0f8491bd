// SPDX-License-Identifier: Apache-2.0
// Who has connected to an endpoint: the text of its address. Pure; any thread.
#pragma once

#include <sys/socket.h>

#include <string>

namespace troupe::http {

/// "127.0.0.1:4711".
std::string address_text(const sockaddr_storage& name, socklen_t size);

}  // namespace troupe::http
