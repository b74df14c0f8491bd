// SPDX-License-Identifier: Apache-2.0
// What every process tells of itself: the standard process_* families from /proc, the memory limit
// of its control group, its build and its log lines.
#pragma once

#include <string_view>

#include "monitoring/metrics.h"

namespace troupe::monitoring {

/// Shows process_*, troupe_cgroup_*, troupe_log_messages_total and troupe_build_info {version,
/// build, role} while the result lives. What /proc does not give is left out.
[[nodiscard]] Collection collect_process(Metrics& metrics, std::string_view version,
                                         std::string_view build, std::string_view role);

}  // namespace troupe::monitoring
