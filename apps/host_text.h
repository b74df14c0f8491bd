// SPDX-License-Identifier: Apache-2.0
// Hosts as --advertise takes them. Pure; any thread.
#pragma once

#include <string>

namespace troupe::apps {

/// The host without the brackets that an IPv6 address may stand in, as in HOST:PORT.
inline std::string bare_host(const std::string& text) {
  const bool brackets = text.size() > 2 && text.front() == '[' && text.back() == ']';
  return brackets ? text.substr(1, text.size() - 2) : text;
}

}  // namespace troupe::apps
