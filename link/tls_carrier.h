// SPDX-License-Identifier: Apache-2.0
// The carrier off the loopback: TLS 1.3 over a socket, proved on both ends. OpenSSL sees bytes in
// memory only; the sockets are Asio's.
// Private to this folder.
#pragma once

#include <cstdint>
#include <memory>

#include "link/carrier.h"
#include "link/tls.h"

namespace troupe::link {

/// Which end of a connection this is.
enum class TlsEnd : std::uint8_t { dialing, accepting };

/// Over a connected socket. It greets with the first receive() or send(). What the peer proved is
/// peer(), which stands as soon as bytes have come.
std::shared_ptr<Carrier> make_tls_carrier(Socket socket, std::shared_ptr<const Tls> tls,
                                          TlsEnd end);

}  // namespace troupe::link
