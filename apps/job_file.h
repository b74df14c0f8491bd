// SPDX-License-Identifier: Apache-2.0
// From job files (TOML) and --set overrides to JobSpec, with every error at once. Blocking file
// reads; one thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "apps/config_file.h"
#include "base/status.h"
#include "schemas/job_spec.h"

namespace troupe::apps {

/// A job, or why it is none.
struct JobFile {
  schemas::JobSpec spec;
  std::vector<ConfigError> errors;
  std::vector<ConfigError> warnings;  ///< of values that do not do what they say, and of weights
                                      ///< that nobody keeps; none with errors
  std::set<std::string> keys;         ///< "train.optimizer.lr" and every other that a job may have
};

/// Reads a job file ("-": standard input) with overrides "section.key=value" on top.
JobFile read_job_file(const std::string& path, const std::vector<std::string>& overrides);
/// The same from text; `name` is what errors call it.
JobFile parse_job(const std::string& name, const std::string& text,
                  const std::vector<std::string>& overrides);

/// Makes all paths absolute and takes symbol files in, so that the job means the same everywhere.
base::Status prepare_submission(schemas::JobSpec& spec);

}  // namespace troupe::apps
