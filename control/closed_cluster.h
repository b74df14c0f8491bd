// SPDX-License-Identifier: Apache-2.0
// When a job that waits for slots is told that there will be none: in a closed cluster, one whose
// agents are counted beforehand (the hosts of one run, an allocation). In an open one another agent
// may join at any time. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "control/capacity.h"
#include "schemas/job_spec.h"

namespace troupe::control {

/// A closed cluster at one time.
struct ClosedCluster {
  std::uint64_t expected = 0;  ///< agents; 0: the cluster is open
  std::uint64_t joined = 0;    ///< agents that are there

  /// Whether a job, which may be bound to a model of GPUs (Capacity::holds), waits in vain when it
  /// has been without room for `short_ms`: its cluster is closed, what is in service has no room
  /// for it, and either just those are there that are expected and nothing can come back that would
  /// be enough, or `patience_ms` have passed.
  bool in_vain(const Capacity& capacity, const schemas::JobSpec& spec, const std::string& model,
               std::uint64_t short_ms, std::uint64_t patience_ms) const;
  /// "; 1 of 3 agents is not there"; empty: all are there, and no others.
  std::string missing() const;
};

}  // namespace troupe::control
