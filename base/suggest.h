// SPDX-License-Identifier: Apache-2.0
// "did you mean": the known word nearest to a mistyped one. Any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace troupe::base {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal
/// string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The shortest of `known` that begins with the word, if that has three letters; else the nearest
/// when it is near enough to be meant (a third of its length), else empty. Always empty for a word
/// of more than 64 bytes.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

/// "; did you mean 'x'?", or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace troupe::base
