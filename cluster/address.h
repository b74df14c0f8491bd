// SPDX-License-Identifier: Apache-2.0
// HOST:PORT texts. Until links have mutual TLS only loopback addresses are accepted, and names
// other than localhost are not looked up. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace troupe::cluster {

/// A loopback address and port.
struct Address {
  std::string host;  ///< numeric, without brackets
  std::uint16_t port = 0;
  /// "127.0.0.1:7000", "[::1]:7000".
  std::string to_string() const;
};

/// Reads "127.0.0.1:7000", "localhost:7000", "[::1]:0". Errors: invalid_argument for another form;
/// permission_denied for an address that is not loopback.
base::Result<Address> parse_address(std::string_view text);

}  // namespace troupe::cluster
