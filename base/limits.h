// SPDX-License-Identifier: Apache-2.0
// Every named limit of the system with its default: deadlines, queues, sizes. A program builds one
// Limits (from a limits file and the job file) and passes it down; tests give it short values.
// Plain data; any thread. Units stand last in the names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace troupe::base {

/// All limits. Durations measure silence unless they say otherwise.
struct Limits {
  // Links between processes.
  std::uint64_t ping_ms = 1'000;               ///< time between two pings of a silent control link
  std::uint64_t silence_dead_ms = 15'000;      ///< a peer silent or cut off for this long is dead
  std::uint64_t progress_ms = 10'000;          ///< unacknowledged bytes without progress: reconnect
  std::uint64_t handshake_ms = 5'000;          ///< a new connection's whole Hello
  std::uint64_t dial_ms = 5'000;               ///< one attempt to connect, to one address
  std::uint64_t resolve_ms = 2'000;            ///< one look-up of a host's name
  std::uint64_t retry_first_ms = 50;           ///< first pause of a back-off; doubles
  std::uint64_t retry_most_ms = 2'000;         ///< longest pause of a back-off
  std::uint64_t join_wait_ms = 600'000;        ///< an agent's tries to reach the coordinator
  std::uint64_t pending_connections_max = 64;  ///< accepted, Hello not yet complete
  std::uint64_t connections_max = 1'024;       ///< open connections of one listener
  std::uint64_t data_connections = 1;          ///< per pair of linked processes
  std::uint64_t hello_bytes_max = 4'096;       ///< header of a Hello
  std::uint64_t data_header_bytes_max = 16'384;        ///< header on a data connection
  std::uint64_t control_header_bytes_max = 4'194'304;  ///< header on a control connection
  std::uint64_t payload_bytes_max = 1'048'576;         ///< one slice
  std::uint64_t push_window_bytes = 8'388'608;         ///< pushes and pulls sent, unacknowledged
  std::uint64_t reply_window_bytes = 8'388'608;        ///< the same of their answers
  std::uint64_t control_window_bytes = 8'388'608;      ///< the same of all other messages
  std::uint64_t goodbye_ms = 2'000;                    ///< a closing link's wait for its last acks
  std::uint64_t send_queue_bytes_max = 268'435'456;    ///< waiting in one link's queue
  std::uint64_t send_queue_messages_max = 65'536;      ///< the same, counted

  // Jobs and their processes.
  std::uint64_t letter_ask_ms = 10'000;   ///< what is unanswered for this long is asked about
  std::uint64_t missing_log_ms = 60'000;  ///< then the ranks waited for are logged
  std::uint64_t stall_ms = 1'800'000;     ///< then the job fails, naming them
  std::uint64_t start_ms = 60'000;        ///< from launch to a process's ProcessReady
  std::uint64_t suspicion_ms = 3'000;     ///< a lost peer's agent has so long to say why
  std::uint64_t agent_grace_ms = 5'000;   ///< agents' children outlive a lost coordinator by this
  std::uint64_t stop_grace_ms = 10'000;   ///< from the wish to end to the kill
  std::uint64_t cut_ms = 60'000;          ///< from the wish for a checkpoint now until it is there
  std::uint64_t probe_ms = 10'000;        ///< check that all machines see one folder
  std::uint64_t hold_ms = 120'000;        ///< train.hold: longest wait for the scrape
  std::uint64_t request_ms = 10'000;      ///< a command's wait for the coordinator's answer
  std::uint64_t coordinator_grace_ms = 600'000;  ///< commands' tries to find a lost coordinator
  std::uint64_t finished_job_ms = 900'000;       ///< a finished job's metrics stay this long
  std::uint64_t jobs_max = 1'000;                ///< the coordinator's jobs, finished ones included
  std::uint64_t agents_max = 1'000;              ///< the coordinator's agents
  std::uint64_t job_spec_bytes_max = 1'048'576;  ///< an encoded job

  // Inside a process.
  std::uint64_t engine_pending_operations_max = 65'536;    ///< pushed, not finished
  std::uint64_t engine_pending_bytes_max = 4'294'967'296;  ///< memory those hold, per device
  std::uint64_t prepared_kernels_max = 1'024;              ///< imperative calls' cache
  std::uint64_t executors_max = 16;                        ///< input signatures of one module
  std::uint64_t pool_cache_bytes_max = 1'073'741'824;      ///< free memory kept by a pool
  std::uint64_t http_connections_max = 64;                 ///< open at the metrics endpoint
  std::uint64_t http_request_ms = 2'000;                   ///< a request's whole head

  // Files.
  std::uint64_t job_file_bytes_max = 1'048'576;  ///< job, limits and symbol files
  std::uint64_t record_bytes_max = 536'870'911;  ///< one record of a .rec file
  std::uint64_t checkpoint_failures_max = 3;     ///< in a row; then the job fails

  friend bool operator==(const Limits&, const Limits&) = default;
};

/// One row of limit_table().
struct LimitInfo {
  std::string_view name;  ///< the member's name; a limits file uses it as key
  std::uint64_t Limits::*member;
  std::uint64_t least = 1;
  std::uint64_t most = std::uint64_t{1} << 40;  ///< a terabyte, 34 years
  bool allows(std::uint64_t value) const { return value >= least && value <= most; }
};

/// Every member of Limits, in order of declaration.
std::span<const LimitInfo> limit_table();

/// Two limits of which one must be at least `times` as large as the other.
struct LimitOrder {
  std::string_view low;
  std::string_view high;
  std::uint64_t times = 1;
  /// True where `limits` keeps it.
  bool holds(const Limits& limits) const;
};

/// All of these; the defaults keep them.
std::span<const LimitOrder> limit_orders();
/// "NAME=VALUE" of each limit that is not the default.
std::vector<std::string> changed_limits(const Limits& limits);
/// Sets what changed_limits() has given, whatever the value. invalid_argument: no limit, or no
/// number.
Status set_limit(Limits& limits, std::string_view text);
/// The value of the limit called `name`, which is one of limit_table().
std::uint64_t limit_value(const Limits& limits, std::string_view name);

}  // namespace troupe::base
