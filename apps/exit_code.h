// SPDX-License-Identifier: Apache-2.0
// The exit codes that scripts rely on. Constants; any thread.
#pragma once

#include "base/status.h"

namespace troupe::apps {

/// How a command ends.
enum class ExitCode : int {
  ok = 0,
  failed = 1,        ///< the job failed, whatever killed it
  bad_usage = 2,     ///< the command line
  bad_input = 3,     ///< a job file, a configuration, or data
  unreachable = 4,   ///< the coordinator
  not_found = 5,     ///< no such job, checkpoint, network
  conflict = 6,      ///< exists already with other content
  no_resources = 7,  ///< memory, slots, a port in use
  not_allowed = 8,
  internal = 125,     ///< a defect of Troupe
  interrupted = 130,  ///< SIGINT
  terminated = 143    ///< SIGTERM
};

/// The exit code for an operating error.
ExitCode exit_code_of(base::Errc code);

}  // namespace troupe::apps
