// SPDX-License-Identifier: Apache-2.0
// How long certificates and tokens are valid: --for. Pure; any thread.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "base/units.h"

namespace troupe::apps {

/// The check of --for: a duration of a second or more, since what is signed counts in seconds.
inline std::string check_lifetime(const std::string& text) {
  constexpr std::uint64_t kLeastMs = 1'000;
  const auto duration = base::parse_duration_ms(text);
  if (!duration.ok()) return duration.status().text();
  if (*duration >= kLeastMs) return "";
  return fmt::format("'{}' is too short a time to be valid: 1s is the least", text);
}

}  // namespace troupe::apps
