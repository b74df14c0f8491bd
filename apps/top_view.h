// SPDX-License-Identifier: Apache-2.0
// What `troupe top` shows of a cluster: from the coordinator's answer to lines of a window or to
// JSON. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/json_text.h"
#include "schemas/messages.h"

namespace troupe::apps {

/// What is known when a picture is drawn.
struct TopView {
  std::string coordinator;    ///< HOST:PORT
  schemas::JobList cluster;   ///< its last answer
  std::uint64_t age_ms = 0;   ///< of that answer
  std::string trouble;        ///< why there is no newer one; empty: all is well
  std::uint64_t left_ms = 0;  ///< with trouble: so long the coordinator is still waited for
};

/// Where it is drawn. 0: no limit.
struct TopWindow {
  std::size_t columns = 0;
  std::size_t rows = 0;
  bool color = false;
};

/// The picture: jobs (those that run first, then those that wait, then ended ones, newest first),
/// machines by name, ranks (missing ones and the slowest first). At most `rows` lines, none longer
/// than `columns`; what does not fit is counted. Lines hold printable ASCII, and with `color`
/// escape sequences that have no width. The same view gives the same lines.
std::vector<std::string> draw_top(const TopView& view, const TopWindow& window);

/// The same facts, in the same order.
Json json_of(const TopView& view);

}  // namespace troupe::apps
