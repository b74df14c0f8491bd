// SPDX-License-Identifier: Apache-2.0
// The exit codes that scripts rely on. Constants; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace troupe::apps {

/// How a command ends; exit_code_table() says what each means.
enum class ExitCode : int {
  ok = 0,
  failed = 1,
  bad_usage = 2,
  bad_input = 3,
  unreachable = 4,
  not_found = 5,
  conflict = 6,
  no_resources = 7,
  not_allowed = 8,
  stopped = 9,
  no_checkpoint = 10,
  internal = 125,
  hung_up = 129,
  interrupted = 130,
  terminated = 143
};

/// A row of exit_code_table().
struct ExitCodeInfo {
  ExitCode code;
  std::string_view meaning;  ///< as the help and docs/exit-codes.md show it
};

/// Every exit code, in order.
std::span<const ExitCodeInfo> exit_code_table();

/// The exit code for an operating error.
ExitCode exit_code_of(base::Errc code);
/// For std::set_new_handler: throws std::bad_alloc, and memory_used_up() knows of it.
[[noreturn]] void fail_allocation();
/// True when the process gets no room for another thread's stack any more, or an allocation
/// failed a few seconds ago. Async-signal-safe.
bool memory_used_up();
/// How the program ends by the exception that is being handled, and what is said of it: no more
/// threads or memory is the machine's limit, anything else a defect.
std::pair<ExitCode, std::string> current_exception_end();
/// 128 + the number of SIGHUP, SIGINT or SIGTERM.
ExitCode exit_code_of_signal(int signal);

}  // namespace troupe::apps
