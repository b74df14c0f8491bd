// SPDX-License-Identifier: Apache-2.0
// UTF-8, character by character.
#include "base/text.h"

#include <algorithm>
#include <cstdint>

namespace troupe::base {
namespace {

constexpr std::string_view kMore = "...";

/// What one character is, and how many bytes it takes.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool valid = true;
};

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// The first one of a text that is not empty. A byte that begins no character is one, not valid.
Character first_of(std::string_view text) {
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  const Character broken{lead, 1, false};
  if (bytes == 1 || lead >= 0xf8 || text.size() < bytes) return broken;
  std::uint32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues(text[i])) return broken;
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || surrogate || code > 0x10ffff) return broken;
  return {code, bytes};
}

/// Of Unicode: separators of lines and paragraphs, and what turns the direction of the text behind
/// it, so that a line reads otherwise than it is.
bool breaks_or_turns(std::uint32_t code) {
  constexpr std::uint32_t kArabicMark = 0x61c, kLeftToRightMark = 0x200e, kRightToLeftMark = 0x200f;
  constexpr std::uint32_t kLineSeparator = 0x2028, kRightToLeftOverride = 0x202e;
  constexpr std::uint32_t kLeftToRightIsolate = 0x2066, kPopIsolate = 0x2069;
  return code == kArabicMark || code == kLeftToRightMark || code == kRightToLeftMark ||
         (code >= kLineSeparator && code <= kRightToLeftOverride) ||
         (code >= kLeftToRightIsolate && code <= kPopIsolate);
}

bool control(const Character& character) {
  const std::uint32_t code = character.code;
  return character.valid && (code < 0x20 || (code >= 0x7f && code < 0xa0) || breaks_or_turns(code));
}

}  // namespace

std::string shortened(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  constexpr std::size_t kContinuedMax = 3;
  std::size_t end = bytes_max - std::min(bytes_max, kMore.size());
  for (std::size_t i = 0; i < kContinuedMax && end > 0 && continues(text[end]); ++i) --end;
  return std::string(text.substr(0, end)).append(kMore);
}

std::string printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_of(text);
    if (!next.valid || control(next)) {
      line += '?';
    } else {
      line.append(text.substr(0, next.bytes));
    }
    text.remove_prefix(next.bytes);
  }
  return line;
}

bool has_control(std::string_view text) {
  while (!text.empty()) {
    const Character next = first_of(text);
    if (control(next)) return true;
    text.remove_prefix(next.bytes);
  }
  return false;
}

}  // namespace troupe::base
