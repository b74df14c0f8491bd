// SPDX-License-Identifier: Apache-2.0
// Quantities as people write them ("10s", "8g", "500 steps"): the one place that reads units. Any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace troupe::base {

/// A number and the word behind it, spaces between them removed.
struct Quantity {
  double number = 0.0;
  std::string unit;  ///< lower case; may be empty
};

/// Splits "1.5 g" into 1.5 and "g"; invalid_argument if no number >= 0 stands first.
Result<Quantity> parse_quantity(std::string_view text);

/// Milliseconds of "250ms", "10s", "5m"/"5min", "2h", "1d".
Result<std::uint64_t> parse_duration_ms(std::string_view text);

/// Bytes of "512", "512b", "64k", "1.5m", "8g", "1t"; each step is 1024 ("kb", "kib" and so on
/// too).
Result<std::uint64_t> parse_bytes(std::string_view text);

/// "0:41", "1:02:03": minutes and seconds, hours when there are any.
std::string format_duration(double seconds);

/// "2026-11-22T10:31:56Z" of seconds since 1970.
std::string format_date(std::int64_t unix_seconds);

/// "3,210": with thousands separators.
std::string format_count(std::uint64_t number);

/// "1 rank", "2 ranks", "1,000 processes".
std::string format_counted(std::uint64_t number, std::string_view thing);

/// "512 B", "1.5 MiB".
std::string format_bytes(std::uint64_t bytes);

}  // namespace troupe::base
