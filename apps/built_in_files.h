// SPDX-License-Identifier: Apache-2.0
// Files that `troupe gen` writes, as they were when the program was built (cmake/EmbedFiles.cmake),
// so that no file of a program can be of another version. Constants.
#pragma once

#include <span>
#include <string_view>

namespace troupe::apps {

/// One file.
struct BuiltInFile {
  std::string_view name;  ///< below its folder: "alerts.yml", "dashboards/job.json"
  std::string_view text;
};

/// Those of monitoring/ for Prometheus and Grafana, by name.
std::span<const BuiltInFile> watching_files();

/// Those of deploy/: places where a cluster runs, by name.
std::span<const BuiltInFile> deploy_files();

}  // namespace troupe::apps
