// SPDX-License-Identifier: Apache-2.0
// Text of others, fit to be kept and shown: no longer than what is asked for, and without what a
// terminal would obey. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::base {

/// `text`, or its beginning with "..." behind it: at most `bytes_max` bytes (at least 3), and no
/// character of UTF-8 cut in two.
std::string shortened(std::string_view text, std::size_t bytes_max);
/// How much of a name or text from outside an error quotes.
inline constexpr std::size_t kQuotedBytesMax = 80;

/// One line that a terminal shows and does nothing else with: each control character (C0, DEL, C1,
/// separators of lines, marks that turn the direction) and each byte that is no UTF-8 is '?'.
std::string printable(std::string_view text);

/// True when `text` has one of these control characters, as UTF-8.
bool has_control(std::string_view text);

}  // namespace troupe::base
