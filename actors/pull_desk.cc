// SPDX-License-Identifier: Apache-2.0
// Pulls sorted by what they wait for.
#include "actors/pull_desk.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace troupe::actors {

using schemas::WeightPull;
using store::PullNeed;

namespace {

/// Answered pulls remembered per machine: more than it has under way at any time. One that is
/// forgotten and asked again would be answered again, which is a waste and no fault.
constexpr std::size_t kAnsweredMax = 16;

}  // namespace

bool PullDesk::is_new(const Pull& pull) const {
  if (needs_.count(pull) != 0) return false;
  const auto last = answered_.find(pull.machine);
  return last == answered_.end() ||
         std::find(last->second.begin(), last->second.end(), pull.pull) == last->second.end();
}

bool PullDesk::wait(const Pull& pull, const PullNeed& need) {
  const auto first = needs_.lower_bound({pull.machine, {}});
  const auto behind = needs_.lower_bound({pull.machine + 1, {}});
  if (std::distance(first, behind) >= std::ptrdiff_t{kPullsWaitingMax}) return false;
  waiting_[need].insert(pull);
  needs_[pull] = need;
  return true;
}

std::optional<Pull> PullDesk::next(const store::SliceOwner& owner,
                                   const std::set<std::uint32_t>& applied) {
  using Kind = PullNeed::Kind;
  // Of a kind, and of a machine, the lowest number is met first.
  const auto met = [&](Kind kind, std::uint32_t machine) {
    const auto at = waiting_.lower_bound({kind, machine, 0});
    const bool same =
        at != waiting_.end() && at->first.kind == kind && at->first.machine == machine;
    return same && owner.meets(at->first) ? at : waiting_.end();
  };
  for (const Kind kind : {Kind::version, Kind::barrier, Kind::steps}) {
    if (const auto at = met(kind, 0); at != waiting_.end()) return take(at);
  }
  for (const std::uint32_t machine : applied) {
    if (const auto at = met(Kind::pushes, machine); at != waiting_.end()) return take(at);
  }
  return std::nullopt;
}

Pull PullDesk::take(std::map<PullNeed, std::set<Pull>>::iterator at) {
  const Pull pull = *at->second.begin();
  at->second.erase(at->second.begin());
  if (at->second.empty()) waiting_.erase(at);
  needs_.erase(pull);
  return pull;
}

void PullDesk::answered(const Pull& pull) {
  auto& last = answered_[pull.machine];
  last.push_back(pull.pull);
  if (last.size() > kAnsweredMax) last.pop_front();
}

void PullDesk::forget(std::optional<std::uint32_t> machine) {
  if (machine) {
    answered_.erase(*machine);
  } else {
    answered_.clear();
  }
}

}  // namespace troupe::actors
