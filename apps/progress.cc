// SPDX-License-Identifier: Apache-2.0
// The text of the progress line, and when it is shown.
#include "apps/progress.h"

#include <fmt/core.h>

#include <cmath>

#include "base/log.h"
#include "base/units.h"

namespace troupe::apps {

std::string format_progress(const Progress& progress) {
  std::string text = fmt::format("step {}", progress.step);
  if (progress.steps_total > 0) {
    const double share =
        static_cast<double>(progress.step) / static_cast<double>(progress.steps_total);
    // Rounded down: 100% means done.
    text += fmt::format("/{} {}%", progress.steps_total, std::floor(share * 100));
  }
  if (progress.loss) text += fmt::format(" | loss {:.3f}", *progress.loss);
  if (progress.accuracy) text += fmt::format(" | test accuracy {:.4f}", *progress.accuracy);
  if (progress.samples_per_second > 0) {
    const auto speed = static_cast<std::uint64_t>(std::llround(progress.samples_per_second));
    text += fmt::format(" | {} samples/s", base::format_count(speed));
  }
  if (progress.seconds_left) {
    text += fmt::format(" | eta {}", base::format_duration(*progress.seconds_left));
  }
  return text;
}

void ProgressDisplay::show(const Progress& progress) {
  if (!console_.options().terminal) {
    base::log_line(base::LogLevel::info, format_progress(progress));
    return;
  }
  const std::int64_t now = clock_.now_ms();
  const bool last = progress.step == progress.steps_total;
  if (shown_ms_ && now < *shown_ms_ + kRefreshMs && !last) return;
  shown_ms_ = now;
  console_.status_line(format_progress(progress));
}

}  // namespace troupe::apps
