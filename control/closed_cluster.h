// SPDX-License-Identifier: Apache-2.0
// When a job that waits for slots is told that there will be none: in a closed cluster, one whose
// agents are counted beforehand (the hosts of one run, an allocation). In an open one another agent
// may join at any time. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schemas/job_spec.h"
#include "schemas/offer_messages.h"

namespace troupe::control {

/// Slots of machines, whether or not jobs have them.
class Capacity {
 public:
  /// Of one more machine.
  void add(std::uint64_t slots, const std::vector<schemas::GpuOffer>& gpus);
  /// Whether the job has room when no other one runs: large enough GPUs, and of one model where it
  /// has to be.
  bool holds(const schemas::JobSpec& spec) const;

 private:
  using Size = std::pair<std::uint64_t, std::string>;  // bytes of memory, and the model

  std::uint64_t slots_ = 0;
  std::map<Size, std::uint64_t> gpus_;
};

/// A closed cluster at one time.
struct ClosedCluster {
  std::uint64_t expected = 0;  ///< agents; 0: the cluster is open
  std::uint64_t joined = 0;    ///< agents that are there
  Capacity in_service;         ///< what jobs can have
  /// With what may come back: lost GPUs, slots that are withheld, agents whose link is cut.
  Capacity most;

  /// Whether a job that has been without room for `short_ms` waits in vain: its cluster is closed,
  /// what is in service has no room for it, and either just those are there that are expected and
  /// nothing can come back that would be enough, or `patience_ms` have passed.
  bool in_vain(const schemas::JobSpec& spec, std::uint64_t short_ms,
               std::uint64_t patience_ms) const;
  /// "; 1 of 3 agents is not there"; empty: all are there, and no others.
  std::string missing() const;
};

}  // namespace troupe::control
