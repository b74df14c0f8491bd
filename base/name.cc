// SPDX-License-Identifier: Apache-2.0
// The rule of names.
#include "base/name.h"

namespace troupe::base {

bool plain_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  // In a command an option would begin so.
  if (name.starts_with('-')) return false;
  return name.size() <= kLongest && name.find_first_not_of(kAllowed) == std::string_view::npos &&
         name.find_first_not_of('.') != std::string_view::npos;
}

}  // namespace troupe::base
