// SPDX-License-Identifier: Apache-2.0
// Counting what goes over links.
#include "tests/sim/traffic.h"

#include <fmt/core.h>

#include <algorithm>

namespace troupe::sim {
namespace {

/// Answers that may be under way to one machine for one slice.
constexpr std::size_t kAnswersMax = 16;

}  // namespace

void Traffic::excuse_answers(Slice& slice) {
  slice.excuses += std::min(slice.pulls.size(), kAnswersMax);
}

bool Traffic::excused(Slice& slice) {
  if (slice.excuses == 0) return false;
  --slice.excuses;
  return true;
}

std::optional<std::string> Traffic::posted(const schemas::Envelope& envelope) {
  const auto id = schemas::slice_of(envelope.message);
  if (!id) return std::nullopt;
  Slice& slice = links_[std::minmax(envelope.from, envelope.to)][*id];
  if (envelope.view > slice.view) {
    slice.view = envelope.view;
    slice.pushes.clear();
    excuse_answers(slice);
  }
  const auto again = [&](const char* what) {
    return fmt::format("{} sends {} of slice ({}, {}) to {} again, though nothing has happened",
                       envelope.from.to_string(), what, id->key, id->slice,
                       envelope.to.to_string());
  };
  if (const auto* push = std::get_if<schemas::GradientPush>(&envelope.message)) {
    const bool is_new = slice.pushes.insert(schemas::push_name(*push, envelope.from.index)).second;
    if (!is_new && !excused(slice)) return again("a push");
  } else if (const auto* pull = std::get_if<schemas::WeightPull>(&envelope.message)) {
    slice.pulls.insert(*pull);
  } else if (std::holds_alternative<schemas::WeightReply>(envelope.message)) {
    if (++slice.replies > slice.pulls.size()) {
      --slice.replies;
      if (!excused(slice)) return again("weights");
    }
  }
  return std::nullopt;
}

void Traffic::misfortune(const schemas::Envelope& envelope) {
  const auto id = schemas::slice_of(envelope.message);
  if (id) ++links_[std::minmax(envelope.from, envelope.to)][*id].excuses;
}

void Traffic::resumed(const schemas::ActorId& one, const schemas::ActorId& other) {
  for (auto& [id, slice] : links_[std::minmax(one, other)]) excuse_answers(slice);
}

}  // namespace troupe::sim
