// SPDX-License-Identifier: Apache-2.0
// StartFinder: looks up where jobs begin, one after the other, on a thread of its own: the folders
// it reads may be slow, and nobody else waits for them. Owned by the coordinator's shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "actors/control_events.h"

namespace troupe::cluster {

/// See the top of the file.
class StartFinder {
 public:
  /// Looks one job up; may take long. Outlives the finder's owner, so it refers to nothing.
  using Find = std::function<actors::StartFound(const actors::FindStart&)>;
  /// Takes a result, on the finder's thread.
  using Found = std::function<void(const actors::StartFound&)>;

  /// At most `waiting_max` jobs wait; the destructor gives a running look-up `patience_ms`.
  StartFinder(Find find, Found found, std::size_t waiting_max, std::uint64_t patience_ms);
  /// Forgets who waits. A look-up that does not end in time is left alone with its folder; its
  /// result goes nowhere. Afterwards `found` is not running and never called again.
  ~StartFinder();
  StartFinder(const StartFinder&) = delete;
  StartFinder& operator=(const StartFinder&) = delete;

  /// Any thread. False when too many wait: nothing will be told of this one.
  bool add(actors::FindStart find);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);

  const std::size_t waiting_max_;
  const std::uint64_t patience_ms_;
  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace troupe::cluster
