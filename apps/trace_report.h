// SPDX-License-Identifier: Apache-2.0
// What `troupe trace` shows of a trace: where the time went, how busy the lanes were. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/json_text.h"
#include "apps/trace_file.h"

namespace troupe::apps {

/// What makes runs one row of the table.
enum class TraceKey : std::uint8_t {
  op,      ///< the operator; where there is none, the name
  name,    ///< the layer, as the network names it
  kernel,  ///< what computed
  lane     ///< where
};

/// By its name: "op", "name", "kernel" or "lane" (CHECK).
TraceKey trace_key(std::string_view name);

/// Of several times.
struct TimeFigures {
  std::uint64_t count = 0;
  double total_us = 0, mean_us = 0, median_us = 0;
  double share = 0;  ///< of the total of all runs
};

/// A row of the table.
struct TraceGroup {
  std::string label;
  TimeFigures times;
  TracedWork work;          ///< the one that took most of the time
  std::uint64_t works = 0;  ///< how many different ones
};

/// One thread of a lane. A gap is a pause of at least kGapUs between two runs.
struct TraceLane {
  std::int64_t row = 0;
  std::string name;
  std::uint64_t runs = 0;
  double busy_us = 0;
  double utilisation = 0;  ///< of the whole trace's time
  std::uint64_t gaps = 0;
  double gaps_us = 0;
  double longest_gap_us = 0, longest_gap_begin_us = 0;
  std::string before_gap, behind_gap;  ///< what ran then; empty: there is no gap
};

inline constexpr double kGapUs = 10;

/// All that is shown.
struct TraceReport {
  TraceKey by = TraceKey::op;
  std::uint64_t runs = 0;
  double span_us = 0;               ///< from the first begin to the last end
  std::vector<TraceGroup> groups;   ///< most time first
  std::vector<TraceGroup> flights;  ///< asynchronous operations by name
  std::vector<TraceLane> lanes;     ///< by row
  std::uint64_t dropped = 0;
};

TraceReport report_of(const TraceFile& trace, TraceKey by);
/// Tables of at most `top` rows each; 0: all.
std::string text_of(const TraceReport& report, std::size_t top);
Json json_of(const TraceReport& report, const std::string& file, std::size_t top);

}  // namespace troupe::apps
