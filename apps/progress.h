// SPDX-License-Identifier: Apache-2.0
// A job's progress for people: one moving line on a terminal, log lines elsewhere. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/console.h"
#include "base/clock.h"

namespace troupe::apps {

/// Where a job stands.
struct Progress {
  std::uint64_t step = 0;          ///< steps done
  std::uint64_t steps_total = 0;   ///< 0: not known yet
  std::optional<double> loss;      ///< mean per sample since the last report
  std::optional<double> accuracy;  ///< on the test set after the last epoch, 0 to 1
  double samples_per_second = 0.0;
  std::optional<double> seconds_left;
};

/// "step 1200/9000 13% | loss 0.412 | 3,210 samples/s | eta 0:41".
std::string format_progress(const Progress& progress);

/// Shows progress: on a terminal at most ten times a second, elsewhere every call is a log line.
class ProgressDisplay {
 public:
  ProgressDisplay(Console& console, const base::Clock& clock) : console_(console), clock_(clock) {}
  void show(const Progress& progress);
  /// Leaves the last line standing.
  void end() { console_.end_status_line(); }

 private:
  static constexpr std::int64_t kRefreshMs = 100;
  Console& console_;
  const base::Clock& clock_;
  std::optional<std::int64_t> shown_ms_;
};

}  // namespace troupe::apps
