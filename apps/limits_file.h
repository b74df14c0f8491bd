// SPDX-License-Identifier: Apache-2.0
// From limits files and a job's table of limits (TOML) to Limits, with every error at once.
// Blocking file reads; one thread.
#pragma once

#include <string>
#include <vector>

#include "apps/config_file.h"
#include "base/file.h"
#include "base/limits.h"

namespace troupe::apps {

/// Limits, or why not.
struct LimitsFile {
  base::Limits limits;
  std::vector<ConfigError> errors;
};

/// Reads a limits file: any of the keys of base/limits.h, durations and sizes also with units.
/// `kind`: what it may be; what a job file names is a regular file.
LimitsFile read_limits_file(const std::string& path, base::FileKind kind);

/// Reads the key `limits` of a job: a table, or the path of a limits file, whose errors go to
/// `errors`.
void read_job_limits(Section& root, base::Limits& limits, std::vector<ConfigError>& errors);

}  // namespace troupe::apps
