// SPDX-License-Identifier: Apache-2.0
// The one logger of the process, over spdlog's stderr sink.
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "base/text.h"

namespace troupe::base {
namespace {

// Logging is the one process-wide service: a line must come out wherever it is written.
struct Logger {
  Logger()
      : sink(std::make_shared<spdlog::logger>("troupe",
                                              std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
    configure(LogLevel::info, "");
  }
  void configure(LogLevel level, const std::string& fields) {
    const std::string middle = fields.empty() ? "" : " " + fields;
    // On a terminal a moving line may stand where this one goes.
    const std::string begin = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
    sink->set_pattern(begin + "ts=%Y-%m-%dT%H:%M:%S.%eZ level=%l" + middle + " msg=\"%v\"",
                      spdlog::pattern_time_type::utc);
    sink->set_level(to_spdlog(level));
    sink->flush_on(spdlog::level::debug);
  }
  static spdlog::level::level_enum to_spdlog(LogLevel level) {
    constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info,
                                                    spdlog::level::warn, spdlog::level::err};
    return levels[static_cast<int>(level)];
  }
  std::shared_ptr<spdlog::logger> sink;
  std::array<std::atomic<std::uint64_t>, kLogLevelCount> counts{};
};

Logger& logger() {
  static Logger instance;
  return instance;
}

/// Others may choose how long their names and reasons are; of a longer message this much stands.
constexpr std::size_t kMessageBytesMax = 8'192;

std::string escaped(std::string_view message) {
  std::string text;
  text.reserve(message.size());
  for (const char c : shortened(message, kMessageBytesMax)) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return printable(text);
}

}  // namespace

void start_logging(LogLevel level, std::string fields) {
  logger().configure(level, fields);
}

void log_line(LogLevel level, std::string_view message) {
  Logger& instance = logger();
  instance.counts[static_cast<std::size_t>(level)].fetch_add(1, std::memory_order_relaxed);
  instance.sink->log(Logger::to_spdlog(level), "{}", escaped(message));
}

void LogBudget::warn(std::int64_t now_ms, std::string_view message) {
  if (now_ms >= window_ends_ms_) {
    window_ends_ms_ = now_ms + kWindowMs;
    lines_ = 0;
  }
  if (lines_ == kLinesMax) {
    ++left_out_;
    return;
  }
  ++lines_;
  if (left_out_ == 0) return log_line(LogLevel::warn, message);
  log_warn("{} ({} such lines before were left out)", message, left_out_);
  left_out_ = 0;
}

std::array<std::uint64_t, kLogLevelCount> log_line_counts() {
  std::array<std::uint64_t, kLogLevelCount> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = logger().counts[i].load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace troupe::base
