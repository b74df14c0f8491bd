// SPDX-License-Identifier: Apache-2.0
// Edit distance by dynamic programming over three rows.
#include "base/suggest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace troupe::base {
namespace {

/// Letters of ASCII alone.
std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  // Nobody mistypes so much; and the time grows with the length, which others may choose.
  constexpr std::size_t kWordBytesMax = 64;
  if (word.size() > kWordBytesMax) return {};
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  const std::string small = lower_case(word);
  // A name that goes on where the word ends; the shortest.
  constexpr std::size_t kBeginningLeast = 3;
  for (const std::string& candidate : known) {
    const bool begins = small.size() >= kBeginningLeast && lower_case(candidate).starts_with(small);
    if (begins && (best == nullptr || candidate.size() < best->size())) best = &candidate;
  }
  if (best != nullptr) return *best;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(small, lower_case(candidate));
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  const bool near = best != nullptr && best_distance <= std::max<std::size_t>(1, best->size() / 3);
  return near ? *best : std::string();
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? nearest : "; did you mean '" + nearest + "'?";
}

}  // namespace troupe::base
