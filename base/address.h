// SPDX-License-Identifier: Apache-2.0
// HOST:PORT as people write it, and which hosts are loopback. No name is looked up here
// (resolver.h does). Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace troupe::base {

/// Where something listens. Port 0: the system chooses one.
struct Address {
  std::string host;  ///< a name or a number, IPv6 without its brackets
  std::uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
  /// "127.0.0.1:80", "[::1]:80".
  std::string to_string() const;
  /// True for "localhost", 127.0.0.0/8 and ::1.
  bool loopback() const;
  /// True for 0.0.0.0 and ::, all addresses of this machine.
  bool wildcard() const;
};

/// Reads "HOST:PORT" or "[IPV6]:PORT"; invalid_argument names the text.
Result<Address> parse_address(std::string_view text);

/// True for an IPv4 or IPv6 address, without brackets.
bool is_number(const std::string& host);

/// Whom an address may be for.
enum class Reach : std::uint8_t {
  loopback,  ///< this machine alone: what has no TLS
  network    ///< any machine
};

/// The same for what listens or is dialled; "localhost" comes back as 127.0.0.1. invalid_argument:
/// the host is neither a number nor a name; permission_denied: it is out of `reach`, with what to
/// do. A name is out of Reach::loopback, whatever it means.
Result<Address> parse_address_within(std::string_view text, Reach reach);

/// permission_denied unless `text` is a HOST:PORT of the machine that `host` is: the same number,
/// or both of the loopback; invalid_argument, its HOST is neither a number nor a name. What a peer
/// says of its ports is checked against where it calls from. Without a `host` any machine will do,
/// and only the form is checked: where whoever listens must show a certificate of its own, nobody
/// is sent to a stranger.
Status check_host(std::string_view text, const std::optional<std::string>& host);

}  // namespace troupe::base
