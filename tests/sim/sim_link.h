// SPDX-License-Identifier: Apache-2.0
// SimLink: a link between two processes in virtual time: a rate, a queue with a limit each way, and
// cuts. As long as it is up it delivers exactly once. A cut loses some of what was under way, which
// is more than a real link does; both ends are told when it goes on. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "actors/outflow.h"
#include "schemas/messages.h"
#include "tests/sim/sim_job.h"

namespace troupe::sim {

/// What a link does to the world. All are set.
struct SimLinkPorts {
  std::function<std::uint64_t()> now_us;
  std::function<void(std::uint64_t delay_us, std::function<void()>)> at;
  std::function<void(const schemas::Envelope&)> deliver;
  std::function<void(const schemas::Envelope&)> lost;            ///< by a cut
  std::function<std::uint64_t(const schemas::Envelope&)> delay;  ///< behind the wire, us
};

/// See the top of the file. Callbacks hold it, so that what is under way arrives.
class SimLink : public std::enable_shared_from_this<SimLink> {
 public:
  /// `drops_when_full`: a planted bug.
  SimLink(const LinkShape& shape, SimLinkPorts ports, bool drops_when_full);
  /// Callbacks to this object begin; once, right after it was made.
  void begin();

  /// Way 0 or 1.
  void post(std::size_t way, schemas::Envelope envelope);
  /// Loses each envelope under way for which `loses()` says so.
  void cut(const std::function<bool()>& loses);
  /// What the cut has not lost goes on; then what waited.
  void resume();
  bool is_down() const { return down_; }

 private:
  struct Way {
    actors::Outflow outflow;
    std::uint64_t queued_bytes = 0;
    std::uint64_t free_us = 0;                                  // when the wire has sent all
    std::map<schemas::SliceId, std::uint64_t> behind = {};      // when the last of a slice arrives
    std::map<std::uint64_t, schemas::Envelope> under_way = {};  // by number
    std::vector<std::uint64_t> late = {};                       // would have come during the cut
  };

  bool give(std::size_t way, schemas::Envelope& envelope);
  void arrive(std::size_t way, std::uint64_t number);

  const LinkShape shape_;
  const SimLinkPorts ports_;
  const bool drops_when_full_;
  Way ways_[2];
  std::uint64_t numbers_ = 0;
  bool down_ = false;
};

}  // namespace troupe::sim
