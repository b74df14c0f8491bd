// SPDX-License-Identifier: Apache-2.0
// UnitGraphs: the graphs of one unit of a program, by the addresses that they were written down
// with, and when to write one down. Of the thread that runs the replay.
// Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/graph_stream.h"

namespace troupe::engine {

/// See the top of the file.
class UnitGraphs {
 public:
  /// Sets of addresses that are remembered: batches take turns in a few buffers.
  static constexpr std::size_t kSetsMax = 8;
  static constexpr std::uint32_t kPauseMin = 16, kPauseMax = 4096;

  /// How the unit's work goes out.
  enum class Way : std::uint8_t {
    issue,       ///< one by one: libraries make what they need in a first run
    write_down,  ///< as a graph that keep() is given; or put_off(), or give_up()
    launch,      ///< as graph()
  };

  /// The way for work that would use `addresses`. The set that was asked for least recently goes
  /// when there are too many.
  Way choose(const std::vector<const void*>& addresses);
  /// What keep() was given for the addresses of the last choose().
  const std::shared_ptr<base::StreamGraph>& graph() const { return sets_.front().graph; }
  void keep(std::shared_ptr<base::StreamGraph> graph);
  /// There was no memory for a graph: all are dropped, and the work is issued kPauseMin times
  /// before one is written down again; each time twice as often, up to kPauseMax.
  void put_off();
  /// The work cannot be written down: it is issued from now on.
  void give_up();
  bool gave_up() const { return gave_up_; }

 private:
  struct Set {
    std::vector<const void*> addresses;
    std::shared_ptr<base::StreamGraph> graph;  // null: none yet
  };

  std::vector<Set> sets_;  // the newest use first
  bool gave_up_ = false;
  std::uint32_t pause_ = kPauseMin;  // the next one
  std::uint32_t paused_ = 0;         // times that are left of this one
};

}  // namespace troupe::engine
