// SPDX-License-Identifier: Apache-2.0
// Reading and writing HOST:PORT.
#include "base/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace troupe::base {
namespace {

Status bad_address(std::string_view text) {
  return error(Errc::invalid_argument, "'{}' is not an address of the form HOST:PORT", text);
}

/// What DNS and /etc/hosts may know (RFC 1123, and "_"). The last part has a letter: what has none
/// was to be a number.
bool is_name(std::string_view host) {
  constexpr std::size_t kNameBytesMax = 253;
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  };
  if (host.empty() || host.size() > kNameBytesMax || host.front() == '-' || host.front() == '.' ||
      host.find("..") != std::string_view::npos || !std::all_of(host.begin(), host.end(), plain)) {
    return false;
  }
  if (host.back() == '.') host.remove_suffix(1);
  const std::string_view last = host.substr(host.rfind('.') + 1);
  return std::any_of(last.begin(), last.end(),
                     [](unsigned char c) { return std::isdigit(c) == 0; });
}

/// What parse_address has read, if its host can be one.
Result<Address> with_host(Result<Address> parsed, std::string_view text) {
  if (!parsed.ok() || is_number(parsed->host) || is_name(parsed->host)) return parsed;
  return error(Errc::invalid_argument, "'{}': '{}' is neither an IP address nor a host's name",
               text, parsed->host);
}

}  // namespace

bool is_number(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

std::string Address::to_string() const {
  const bool brackets = host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool Address::loopback() const {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool Address::wildcard() const {
  return host == "0.0.0.0" || host == "::";
}

Result<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad_address(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view number = text.substr(colon + 1);
  Address address;
  const auto [end, failed] =
      std::from_chars(number.data(), number.data() + number.size(), address.port);
  if (number.empty() || failed != std::errc() || end != number.data() + number.size()) {
    return bad_address(text);
  }
  if (host.empty()) return bad_address(text);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  // Without brackets a second colon would leave open where the port begins.
  if (!brackets && host.find_first_of(":[] ") != std::string_view::npos) return bad_address(text);
  address.host = std::string(host);
  return address;
}

Result<Address> parse_address_within(std::string_view text, Reach reach) {
  TROUPE_TRY_ASSIGN(Address address, parse_address(text));
  if (reach == Reach::loopback && !address.loopback()) {
    return error(Errc::permission_denied,
                 "'{}' is not a loopback address; other hosts need mutual TLS: troupe ca init and "
                 "troupe ca issue make a file for --identity",
                 text);
  }
  if (address.host == "localhost") address.host = "127.0.0.1";
  return with_host(std::move(address), text);
}

Status check_host(std::string_view text, const std::optional<std::string>& host) {
  TROUPE_TRY_ASSIGN(const Address address, with_host(parse_address(text), text));
  const bool same =
      !host || address.host == *host || (address.loopback() && Address{*host, 0}.loopback());
  if (same && address.port != 0) return {};
  if (!host) return error(Errc::permission_denied, "'{}' has no port", text);
  return error(Errc::permission_denied, "'{}' is no address of {}, where its owner calls from",
               text, *host);
}

}  // namespace troupe::base
