// SPDX-License-Identifier: Apache-2.0
// Parsing of loopback addresses.
#include "cluster/address.h"

#include <fmt/core.h>

#include <asio/ip/address.hpp>
#include <charconv>

namespace troupe::cluster {

using base::Errc;

std::string Address::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

base::Result<Address> parse_address(std::string_view text) {
  const auto malformed = [text] {
    return base::error(Errc::invalid_argument, "[address] '{}' is not HOST:PORT", text);
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return malformed();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  Address address;
  const auto [end, fault] =
      std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (fault != std::errc() || end != digits.data() + digits.size()) return malformed();
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed();
  }
  if (host == "localhost") host = "127.0.0.1";
  asio::error_code no_address;
  const auto parsed = asio::ip::make_address(std::string(host), no_address);
  if (no_address || !parsed.is_loopback()) {
    return base::error(Errc::permission_denied,
                       "[address] '{}' is no loopback address; links to other hosts need mutual "
                       "TLS, which this version does not have",
                       text);
  }
  address.host = parsed.to_string();
  return address;
}

}  // namespace troupe::cluster
