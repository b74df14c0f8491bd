// SPDX-License-Identifier: Apache-2.0
// A small job file for tests, and errors as lines. A test's thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/job_file.h"
#include "tests/support/catch.h"

namespace troupe::apps {

using Lines = std::vector<std::string>;

constexpr std::string_view kSmall =
    "name = \"x\"\n"
    "[model]\nnetwork = \"lenet\"\n"
    "[data]\ntrain = \"a.rec\"\n";

/// kSmall, and `more` behind it.
inline JobFile parse(std::string_view more, const Lines& overrides = {}) {
  return parse_job("job.toml", std::string(kSmall) + std::string(more), overrides);
}

/// The only error of such a job.
inline std::string only_error(const std::string& more) {
  const JobFile job = parse(more);
  INFO(more);
  REQUIRE(job.errors.size() == 1);
  return job.errors[0].to_string();
}

inline Lines lines_of(const std::vector<ConfigError>& errors) {
  Lines lines;
  for (const ConfigError& error : errors) lines.push_back(error.to_string());
  return lines;
}

}  // namespace troupe::apps
