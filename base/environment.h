// SPDX-License-Identifier: Apache-2.0
// The only file that reads environment variables, and that sets one. Call before other threads
// start.
#pragma once

#include <optional>
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

/// Lets CUDA number GPUs by their places on the bus, as nvidia-smi does, unless CUDA_DEVICE_ORDER
/// says otherwise. Before the first call of CUDA.
void order_gpus_by_bus();
/// CUDA_VISIBLE_DEVICES, by which people and schedulers choose and number the GPUs of a process;
/// where that is not set, NVIDIA_VISIBLE_DEVICES, by which containers are given slices of them
/// ("MIG-..."); nothing where neither says something.
std::optional<std::string> visible_gpus();

/// The process's variables "NAME=value" that would steer an OpenMP runtime (OMP_*, GOMP_*, KMP_*),
/// which libgomp reads before main, and some of which make prepared kernels hang; and those that
/// change the arithmetic of NVIDIA's libraries behind the back of the numeric class.
std::vector<std::string> steering_variables();

/// The process's environment without those: what a child process gets.
std::vector<std::string> environment_without_steering();

}  // namespace troupe::base
