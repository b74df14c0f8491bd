// SPDX-License-Identifier: Apache-2.0
// Where a program listens: one port of one host, on all addresses that the host's name has here.
// The sockets are the caller's. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/resolver.h"
#include "base/status.h"

namespace troupe::base {

/// Ports that may be taken, both ends included; 0-0: any that the system chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool any() const { return first == 0; }
  /// "7800-7899".
  std::string to_string() const;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// Reads "FIRST-LAST", 1 to 65535; invalid_argument names the text.
Result<PortRange> parse_port_range(std::string_view text);

/// What hinders a socket from listening, `number` being the system's: resource_exhausted (the port
/// is in use), permission_denied (it is another user's to take), else unavailable.
Errc errc_of_listening(int number);

/// How one socket is made to listen, and how all that were are closed again.
struct Listening {
  /// Gives the port that was bound. Error resource_exhausted: it is in use.
  std::function<Result<std::uint16_t>(const Address& address)> open;
  std::function<void()> close_all;
};

/// Listens on all of a host's `numbers` that this machine has, on one port: the address's own, or,
/// where that is 0, the first free one of `ports`. Returns it. Errors: resource_exhausted: the port
/// is in use, or all of `ports` are, which the text names; else the first error of `open`.
Result<std::uint16_t> listen_at(const Address& address, const PortRange& ports,
                                const HostNumbers& numbers, const Listening& listening);

}  // namespace troupe::base
