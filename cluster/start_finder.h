// SPDX-License-Identifier: Apache-2.0
// StartFinder: looks up where jobs begin, beside the coordinator: the folders it reads may be slow,
// and neither the coordinator nor other jobs wait for them. Owned by the coordinator's shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cluster/background_calls.h"
#include "control/control_events.h"

namespace troupe::cluster {

/// See the top of the file.
class StartFinder {
 public:
  /// Looks one job up; may take long. Runs for several jobs at a time and outlives the finder's
  /// owner, so it refers to nothing.
  using Find = std::function<control::StartFound(const control::FindStart&)>;
  /// Takes a result, on a thread of the finder; several at a time, one of a job.
  using Found = std::function<void(const control::StartFound&)>;

  /// At most `waiting_max` jobs wait. The finder's end gives running look-ups `patience_ms` and
  /// leaves alone those that hang; afterwards `found` is not running and never called again.
  StartFinder(Find find, Found found, std::size_t waiting_max, std::uint64_t patience_ms);

  /// Any thread. A job that is asked for again is looked up again, and only that result is told.
  /// False when too many wait: nothing will be told of this one.
  bool add(control::FindStart find);

 private:
  const Find find_;
  const Found found_;
  BackgroundCalls calls_;
};

}  // namespace troupe::cluster
