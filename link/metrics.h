// SPDX-License-Identifier: Apache-2.0
// The traffic of a process's links as metrics, read at each scrape.
#pragma once

#include "link/link_set.h"
#include "monitoring/metrics.h"

namespace troupe::link {

/// Shows `links` under troupe_net_* while the result lives; several sets are summed. Drop the
/// result before the links.
[[nodiscard]] monitoring::Collection show_links(monitoring::Metrics& metrics, const LinkSet& links);

}  // namespace troupe::link
