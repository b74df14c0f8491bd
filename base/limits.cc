// SPDX-License-Identifier: Apache-2.0
// The table of limits: names for files, errors and the wire.
#include "base/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"

namespace troupe::base {
namespace {

/// Shorter than this is no patience with a busy machine, but a number that was meant as seconds.
constexpr std::uint64_t kShortestMs = 100;

// The least are what the protocol's own messages need; the most, where given, what links can count.
constexpr std::array kTable = {
    LimitInfo{"ping_ms", &Limits::ping_ms},
    LimitInfo{"silence_dead_ms", &Limits::silence_dead_ms, kShortestMs},
    LimitInfo{"progress_ms", &Limits::progress_ms, kShortestMs},
    LimitInfo{"handshake_ms", &Limits::handshake_ms, kShortestMs},
    LimitInfo{"dial_ms", &Limits::dial_ms, kShortestMs},
    LimitInfo{"resolve_ms", &Limits::resolve_ms},
    LimitInfo{"retry_first_ms", &Limits::retry_first_ms},
    LimitInfo{"retry_most_ms", &Limits::retry_most_ms},
    LimitInfo{"join_wait_ms", &Limits::join_wait_ms, kShortestMs},
    LimitInfo{"pending_connections_max", &Limits::pending_connections_max},
    LimitInfo{"connections_max", &Limits::connections_max},
    LimitInfo{"data_connections", &Limits::data_connections, 1, 63},
    LimitInfo{"hello_bytes_max", &Limits::hello_bytes_max, 1'024},
    LimitInfo{"data_header_bytes_max", &Limits::data_header_bytes_max, 16'384},
    LimitInfo{"control_header_bytes_max", &Limits::control_header_bytes_max, 65'536},
    LimitInfo{"payload_bytes_max", &Limits::payload_bytes_max, 1 << 20, 1 << 30},
    LimitInfo{"push_window_bytes", &Limits::push_window_bytes},
    LimitInfo{"reply_window_bytes", &Limits::reply_window_bytes},
    LimitInfo{"control_window_bytes", &Limits::control_window_bytes},
    LimitInfo{"goodbye_ms", &Limits::goodbye_ms},
    LimitInfo{"send_queue_bytes_max", &Limits::send_queue_bytes_max, 1 << 23},
    LimitInfo{"send_queue_messages_max", &Limits::send_queue_messages_max, 1'024},
    LimitInfo{"letter_ask_ms", &Limits::letter_ask_ms, kShortestMs},
    LimitInfo{"missing_log_ms", &Limits::missing_log_ms},
    LimitInfo{"stall_ms", &Limits::stall_ms, kShortestMs},
    LimitInfo{"start_ms", &Limits::start_ms, kShortestMs},
    LimitInfo{"suspicion_ms", &Limits::suspicion_ms, kShortestMs},
    LimitInfo{"agent_grace_ms", &Limits::agent_grace_ms},
    LimitInfo{"stop_grace_ms", &Limits::stop_grace_ms, kShortestMs},
    LimitInfo{"cut_ms", &Limits::cut_ms, kShortestMs},
    LimitInfo{"probe_ms", &Limits::probe_ms, kShortestMs},
    LimitInfo{"hold_ms", &Limits::hold_ms},
    LimitInfo{"request_ms", &Limits::request_ms, kShortestMs},
    LimitInfo{"coordinator_grace_ms", &Limits::coordinator_grace_ms},
    LimitInfo{"finished_job_ms", &Limits::finished_job_ms},
    LimitInfo{"jobs_max", &Limits::jobs_max},
    LimitInfo{"agents_max", &Limits::agents_max},
    LimitInfo{"job_spec_bytes_max", &Limits::job_spec_bytes_max},
    LimitInfo{"engine_pending_operations_max", &Limits::engine_pending_operations_max},
    LimitInfo{"engine_pending_bytes_max", &Limits::engine_pending_bytes_max},
    LimitInfo{"prepared_kernels_max", &Limits::prepared_kernels_max},
    LimitInfo{"executors_max", &Limits::executors_max},
    LimitInfo{"pool_cache_bytes_max", &Limits::pool_cache_bytes_max},
    LimitInfo{"http_connections_max", &Limits::http_connections_max},
    LimitInfo{"http_request_ms", &Limits::http_request_ms, kShortestMs},
    LimitInfo{"job_file_bytes_max", &Limits::job_file_bytes_max},
    LimitInfo{"record_bytes_max", &Limits::record_bytes_max},
    LimitInfo{"checkpoint_failures_max", &Limits::checkpoint_failures_max},
};

// A member without a row could not be set by a file.
static_assert(sizeof(Limits) == kTable.size() * sizeof(std::uint64_t));

}  // namespace

std::span<const LimitInfo> limit_table() {
  return kTable;
}

std::vector<std::string> changed_limits(const Limits& limits) {
  std::vector<std::string> changed;
  for (const LimitInfo& row : kTable) {
    if (limits.*row.member == Limits{}.*row.member) continue;
    changed.push_back(fmt::format("{}={}", row.name, limits.*row.member));
  }
  return changed;
}

Status set_limit(Limits& limits, std::string_view text) {
  const std::size_t equals = text.find('=');
  const auto row = std::ranges::find(kTable, text.substr(0, equals), &LimitInfo::name);
  if (equals != std::string_view::npos && row != kTable.end()) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const std::from_chars_result read = std::from_chars(text.data() + equals + 1, end, value);
    if (read.ec == std::errc() && read.ptr == end) {
      limits.*row->member = value;
      return {};
    }
  }
  return error(Errc::invalid_argument, "'{}' is no limit with a value", text);
}

std::uint64_t limit_value(const Limits& limits, std::string_view name) {
  const auto row = std::find_if(kTable.begin(), kTable.end(),
                                [name](const LimitInfo& info) { return info.name == name; });
  TROUPE_CHECK(row != kTable.end(), "no limit has this name");
  return limits.*row->member;
}

bool LimitOrder::holds(const Limits& limits) const {
  return limit_value(limits, high) / times >= limit_value(limits, low);
}

std::span<const LimitOrder> limit_orders() {
  static constexpr std::array kOrders = {
      // Else a peer that is well is dead before it has been asked.
      LimitOrder{"ping_ms", "silence_dead_ms", 2},
      LimitOrder{"retry_first_ms", "retry_most_ms"},
  };
  return kOrders;
}

}  // namespace troupe::base
