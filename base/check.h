// SPDX-License-Identifier: Apache-2.0
// TROUPE_CHECK: programmer errors end the process with file, line, condition and a text.
// Operating errors (bad input, lost peers, full disks) are Status, never a failed check.
#pragma once

#include <string_view>

namespace troupe::base {

/// Prints the failure to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view text);

}  // namespace troupe::base

/// Aborts with `text` (anything convertible to std::string_view, evaluated only on failure).
#define TROUPE_CHECK(condition, text)                                       \
  do {                                                                      \
    if (!(condition)) [[unlikely]] {                                        \
      ::troupe::base::check_failed(__FILE__, __LINE__, #condition, (text)); \
    }                                                                       \
  } while (false)
