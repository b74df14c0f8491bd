// SPDX-License-Identifier: Apache-2.0
// HOST:PORT as people write it, and which hosts are loopback. No name is looked up here. Any
// thread.
#pragma once

#include <cstdint>
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
};

/// Reads "HOST:PORT", "[IPV6]:PORT" or ":PORT" (then the host is 127.0.0.1); invalid_argument names
/// the text.
Result<Address> parse_address(std::string_view text);

}  // namespace troupe::base
