// SPDX-License-Identifier: Apache-2.0
// Logging to stderr in logfmt: ts=... level=info role=worker rank=3 msg="...". Any thread.
// Programs call start_logging once; libraries only write lines. Never log per step or per tensor.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::base {

/// How much a line matters.
enum class LogLevel : std::uint8_t { debug, info, warn, error };
inline constexpr int kLogLevelCount = 4;

/// Sets level and the fields (for example `role=worker rank=3`) that every line of this process
/// carries.
void start_logging(LogLevel level, std::string fields);
/// Writes one line; `message` is quoted and escaped, and ends at 8 KiB.
void log_line(LogLevel level, std::string_view message);
/// Lines written per level since start; the source of troupe_log_messages_total.
std::array<std::uint64_t, kLogLevelCount> log_line_counts();

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

/// Bounds the warnings that strangers can make a process write. One owner, one thread.
class LogBudget {
 public:
  static constexpr std::uint64_t kLinesMax = 50;
  static constexpr std::int64_t kWindowMs = 10'000;

  /// Writes a warning, or counts it when this window has had its lines; the next line written says
  /// how many were left out.
  void warn(std::int64_t now_ms, std::string_view message);

 private:
  std::int64_t window_ends_ms_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace troupe::base
