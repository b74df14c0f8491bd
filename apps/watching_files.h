// SPDX-License-Identifier: Apache-2.0
// The files of monitoring/ for Prometheus and Grafana, as they were when the program was built
// (cmake/EmbedFiles.cmake), so that no file of a program can be of another version. Constants.
#pragma once

#include <span>
#include <string_view>

namespace troupe::apps {

/// One file.
struct WatchingFile {
  std::string_view name;  ///< below monitoring/: "alerts.yml", "dashboards/job.json"
  std::string_view text;
};

/// All of them, by name.
std::span<const WatchingFile> watching_files();

}  // namespace troupe::apps
