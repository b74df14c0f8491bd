// SPDX-License-Identifier: Apache-2.0
// Few sets, newest use first.
#include "engine/unit_graphs.h"

#include <algorithm>
#include <utility>

namespace troupe::engine {

UnitGraphs::Way UnitGraphs::choose(const std::vector<const void*>& addresses) {
  if (gave_up_) return Way::issue;
  if (paused_ > 0) {
    --paused_;
    return Way::issue;
  }
  const auto found = std::find_if(sets_.begin(), sets_.end(),
                                  [&](const Set& set) { return set.addresses == addresses; });
  if (found == sets_.end()) {
    if (sets_.size() == kSetsMax) sets_.pop_back();
    sets_.insert(sets_.begin(), {addresses, nullptr});
    return Way::issue;
  }
  std::rotate(sets_.begin(), found, found + 1);
  return sets_.front().graph ? Way::launch : Way::write_down;
}

void UnitGraphs::keep(std::shared_ptr<base::StreamGraph> graph) {
  sets_.front().graph = std::move(graph);
}

void UnitGraphs::put_off() {
  sets_.clear();
  paused_ = pause_;
  pause_ = std::min(2 * pause_, kPauseMax);
}

void UnitGraphs::give_up() {
  sets_.clear();
  gave_up_ = true;
}

}  // namespace troupe::engine
