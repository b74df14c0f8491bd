// SPDX-License-Identifier: Apache-2.0
// Traffic: the judge of what servers send each other. A link that is up delivers what it has taken,
// so nothing that may be large goes over it twice: no push, and no more answers than questions,
// unless something has happened to that slice on that link. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "schemas/messages.h"

namespace troupe::sim {

/// Of one generation of a job.
class Traffic {
 public:
  /// An envelope between two servers; what is wrong with it.
  std::optional<std::string> posted(const schemas::Envelope& envelope);
  /// It is lost, doubled or late: one more of its slice may follow.
  void misfortune(const schemas::Envelope& envelope);
  /// The link goes on after a cut: what was answered last may be answered again.
  void resumed(const schemas::ActorId& one, const schemas::ActorId& other);

 private:
  using Ends = std::pair<schemas::ActorId, schemas::ActorId>;  // the first is the lower
  struct Slice {
    std::uint64_t view = 0;
    std::set<schemas::PushName> pushes;  // in this view
    std::set<schemas::WeightPull> pulls;
    std::size_t replies = 0;
    std::size_t excuses = 0;
  };

  static void excuse_answers(Slice& slice);
  /// Uses an excuse up; false when there is none.
  static bool excused(Slice& slice);

  std::map<Ends, std::map<schemas::SliceId, Slice>> links_;
};

}  // namespace troupe::sim
