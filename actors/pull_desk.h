// SPDX-License-Identifier: Apache-2.0
// PullDesk: the pulls of one slice at its owner: those that wait, by what they wait for, so that
// only those are looked at again that can be answered; and the last ones that were answered, since
// a link delivers their answers, however often they are asked for. Pure; one owner, one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "schemas/messages.h"
#include "store/slice_owner.h"

namespace troupe::actors {

/// Pulls of one machine that wait at one slice. A sound device server asks once for each step of
/// its ranks, for a barrier and for newer weights.
inline constexpr std::size_t kPullsWaitingMax = 4'096;

/// A machine's question.
struct Pull {
  std::uint32_t machine = 0;
  schemas::WeightPull pull;
  friend auto operator<=>(const Pull&, const Pull&) = default;
};

/// See the top of the file.
class PullDesk {
 public:
  /// True when the pull is new: it neither waits nor has been answered over the present link.
  bool is_new(const Pull& pull) const;
  /// It has to wait. False: too many of its machine's wait already.
  bool wait(const Pull& pull, const store::PullNeed& need);
  /// Takes out a pull whose need the owner meets; of those that wait for their machine's pushes
  /// only if `applied` names the machine.
  std::optional<Pull> next(const store::SliceOwner& owner, const std::set<std::uint32_t>& applied);
  /// Its answer is on the way.
  void answered(const Pull& pull);
  /// The answers to a machine, or with none to all, may have been lost: whoever asks again is
  /// answered again.
  void forget(std::optional<std::uint32_t> machine);

  /// Pulls that wait.
  std::size_t waiting() const { return needs_.size(); }

 private:
  Pull take(std::map<store::PullNeed, std::set<Pull>>::iterator at);

  std::map<store::PullNeed, std::set<Pull>> waiting_;
  std::map<Pull, store::PullNeed> needs_;                              // of those that wait
  std::map<std::uint32_t, std::deque<schemas::WeightPull>> answered_;  // by machine; the last few
};

}  // namespace troupe::actors
