// SPDX-License-Identifier: Apache-2.0
// Trying ports until one is free on all addresses.
#include "base/listening.h"

#include <cerrno>
#include <charconv>

namespace troupe::base {
namespace {

/// A port that the system has chosen for one address may be in use on another.
constexpr int kTriesMost = 16;

bool read_port(std::string_view text, std::uint16_t& port) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  return !text.empty() && failed == std::errc() && end == text.data() + text.size() && port != 0;
}

Result<std::uint16_t> listen_once(std::uint16_t port, const HostNumbers& numbers,
                                  const Listening& listening) {
  std::uint16_t bound = 0;
  Status first_error;
  for (const std::string& number : numbers) {
    const auto opened = listening.open({number, bound == 0 ? port : bound});
    if (opened.ok()) {
      bound = *opened;
    } else if (opened.status().code() == Errc::resource_exhausted) {
      listening.close_all();
      return opened.status();
    } else if (first_error.ok()) {
      first_error = opened.status();
    }
  }
  return bound == 0 ? Result<std::uint16_t>(first_error) : bound;
}

}  // namespace

Errc errc_of_listening(int number) {
  if (number == EADDRINUSE) return Errc::resource_exhausted;
  return number == EACCES || number == EPERM ? Errc::permission_denied : Errc::unavailable;
}

std::string PortRange::to_string() const {
  return fmt::format("{}-{}", first, last);
}

Result<PortRange> parse_port_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  PortRange ports;
  const bool read = dash != std::string_view::npos &&
                    read_port(text.substr(0, dash), ports.first) &&
                    read_port(text.substr(dash + 1), ports.last) && ports.first <= ports.last;
  if (read) return ports;
  return error(Errc::invalid_argument, "'{}' is no range of ports of the form FIRST-LAST", text);
}

Result<std::uint16_t> listen_at(const Address& address, const PortRange& ports,
                                const HostNumbers& numbers, const Listening& listening) {
  const bool choose = address.port == 0 && !ports.any();
  const int tries = choose ? ports.last - ports.first + 1 : address.port == 0 ? kTriesMost : 1;
  Result<std::uint16_t> bound(error(Errc::unavailable, "'{}' has no address", address.host));
  for (int i = 0; i < tries; ++i) {
    bound = listen_once(choose ? static_cast<std::uint16_t>(ports.first + i) : address.port,
                        numbers, listening);
    if (bound.ok() || bound.status().code() != Errc::resource_exhausted) break;
  }
  if (!choose || bound.ok() || bound.status().code() != Errc::resource_exhausted) return bound;
  return error(Errc::resource_exhausted, "all ports {} of {} are in use; --ports names them",
               ports.to_string(), address.host);
}

}  // namespace troupe::base
