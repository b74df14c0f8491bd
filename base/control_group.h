// SPDX-License-Identifier: Apache-2.0
// ControlGroup: the memory limit that the system has set for a group of processes, as containers
// and service managers do, and what became of it. Reads the kernel's files at each call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::base {

/// Memory of a group of processes, bytes.
struct GroupMemory {
  std::uint64_t limit = 0;
  std::uint64_t used = 0;  ///< without files' pages that the system can drop at once
};

/// The memory control group of a process, version 1 or 2. Any thread.
class ControlGroup {
 public:
  /// `groups`: the content of /proc/PID/cgroup. `root`: where groups are mounted.
  ControlGroup(const std::string& groups, const std::string& root);
  /// This process's.
  static ControlGroup of_this_process();

  /// So often the kernel has killed a process of this group for want of memory, as `memory.events`
  /// (version 2) or `memory.oom_control` (1) says; 0 where that is not known.
  std::uint64_t out_of_memory_kills() const;
  /// Of this group or of the one around it that is nearest to its limit; none without a limit.
  std::optional<GroupMemory> memory() const;
  /// The least limit of this group and those around it: what a program of it can have at most.
  std::optional<std::uint64_t> least_limit() const;

 private:
  std::optional<GroupMemory> memory_of(const std::string& folder) const;

  bool unified_ = true;               // version 2
  std::vector<std::string> folders_;  // this group's, then those around it
};

}  // namespace troupe::base
