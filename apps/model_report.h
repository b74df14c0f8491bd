// SPDX-License-Identifier: Apache-2.0
// What `troupe model inspect` prints. Binds the network on an engine of its own; one thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace troupe::apps {

/// A network, and how it would be run.
struct InspectOptions {
  std::string model;              ///< built-in name, or path of a symbol file (ends in ".json")
  std::string input = "1,28,28";  ///< shape of one sample
  std::int64_t batch = 32;
  std::int64_t classes = 10;
  int threads = 1;
  bool dense = false;
  bool reference_only = false;
  bool dot = false;  ///< graphviz text instead of the table
};

/// A table of layers, then parameters, memory, work and reorders; or dot text. Errors name the
/// network, or node and shapes.
base::Result<std::string> inspect_model(const InspectOptions& options);

}  // namespace troupe::apps
