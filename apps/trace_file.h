// SPDX-License-Identifier: Apache-2.0
// Reading the traces that `troupe run --trace` writes (engine/trace.h). A value; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace troupe::apps {

/// What ran: equal ones are one. All but the name are empty for what is no operator of a network.
struct TracedWork {
  std::string name;
  std::string op;               ///< "convolution"
  std::string kernel;           ///< "onednn:jit_avx512_core"
  std::string inputs, outputs;  ///< "f32(32,1,28,28) f32(20,1,5,5)"
  std::string pass;             ///< "forward", "backward"
  auto operator<=>(const TracedWork&) const = default;
};

/// One time that something ran. Times are microseconds of the engine's clock.
struct TracedSpan {
  std::size_t work = 0;  ///< in TraceFile::works
  std::int64_t row = 0;  ///< the thread; not of flights
  double begin_us = 0, length_us = 0;
};

/// A whole trace.
struct TraceFile {
  std::vector<TracedWork> works;
  std::vector<TracedSpan> runs;               ///< functions on lanes' threads
  std::vector<TracedSpan> flights;            ///< asynchronous operations, push to completion
  std::map<std::int64_t, std::string> lanes;  ///< names of rows
  std::uint64_t dropped = 0;                  ///< events beyond the engine's limit
};

/// Errors name the file: not_found and the like; invalid_argument for what is no trace of Troupe;
/// data_loss, with the line, for one that is damaged or ends too early.
base::Result<TraceFile> read_trace(const std::string& path);
/// The same of the text of a file called `name`.
base::Result<TraceFile> parse_trace(const std::string& name, std::string_view text);

}  // namespace troupe::apps
