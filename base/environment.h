// SPDX-License-Identifier: Apache-2.0
// The only file that reads environment variables. Call before other threads start.
#pragma once

#include <string>
#include <vector>

namespace troupe::base {

/// What people may set for Troupe; the command line is stronger.
struct Environment {
  std::string coordinator;  ///< TROUPE_COORDINATOR, HOST:PORT
  std::string identity;     ///< TROUPE_IDENTITY, a file
  std::string token_file;   ///< TROUPE_TOKEN_FILE
  std::string log_level;    ///< TROUPE_LOG_LEVEL: debug, info, warn or error
  /// TROUPE_KERNEL_CACHE, an absolute path; where that is not set, troupe/kernels in XDG_CACHE_HOME
  /// or in HOME's .cache. Empty, or a relative path: none.
  std::string kernel_cache;
  bool no_color = false;       ///< NO_COLOR is set, or TERM is "dumb"
  bool dumb_terminal = false;  ///< TERM is "dumb": it cannot rewrite a line
};

/// Reads the process's environment.
Environment read_environment();

/// The process's variables "NAME=value" that would steer an OpenMP runtime (OMP_*, GOMP_*, KMP_*).
/// libgomp reads them before main, and some make prepared kernels hang.
std::vector<std::string> openmp_variables();

/// The process's environment without those: what a child process gets.
std::vector<std::string> environment_without_openmp();

}  // namespace troupe::base
