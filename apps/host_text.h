// SPDX-License-Identifier: Apache-2.0
// Hosts as --advertise takes them, and what is said of a missing one. Pure; any thread.
#pragma once

#include <fmt/core.h>

#include <string>

#include "base/address.h"

namespace troupe::apps {

/// The host without the brackets that an IPv6 address may stand in, as in HOST:PORT.
inline std::string bare_host(const std::string& text) {
  const bool brackets = text.size() > 2 && text.front() == '[' && text.back() == ']';
  return brackets ? text.substr(1, text.size() - 2) : text;
}

/// False for what is no HOST:PORT, and for a name: it may mean any machine.
inline bool on_loopback(const std::string& address) {
  const auto parsed = base::parse_address(address);
  return parsed.ok() && parsed->loopback();
}

/// The words by which a machine joins the coordinator at `listen`.
inline std::string join_words(const std::string& listen, bool secured) {
  return fmt::format("troupe agent --join {} --name NAME{} --devices cpu:2{}", listen,
                     on_loopback(listen) ? "" : " --advertise HOST",
                     secured ? " --identity FILE" : "");
}

/// The warning that no other machine reaches `host`, an agent's --advertise, though its coordinator
/// at `join` may be on another one; empty where all is well.
inline std::string advertise_warning(const std::string& join, const std::string& host) {
  if (on_loopback(join) || !base::Address{host, 0}.loopback()) return "";
  return fmt::format(
      "--advertise {}: no other machine reaches this one there, and --join {} may be on another "
      "machine; say this machine's name or address: --advertise HOST",
      host, join);
}

}  // namespace troupe::apps
