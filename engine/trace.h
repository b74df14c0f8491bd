// SPDX-License-Identifier: Apache-2.0
// Trace: when each operation ran, as Chrome-trace JSON (about:tracing, Perfetto). Bounded: events
// beyond the limit are counted, not kept. Any thread may add; write() is called once, at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace troupe::engine {

/// What ran.
struct TracedRun {
  std::string_view name;
  std::string_view detail;  ///< a JSON object, shown as the event's arguments; empty: none
};

/// What a lane's thread does where the work itself has a row of its own (StreamTimes).
inline constexpr TracedRun kIssue{"issue", {}};

/// Times are nanoseconds of the engine's clock.
class Trace {
 public:
  Trace(std::string path, std::uint64_t events_max);

  /// A function ran on row `row` in [begin, end].
  void add_run(const TracedRun& run, int row, std::int64_t begin_ns, std::int64_t end_ns);
  /// An asynchronous operation was outstanding in [begin, end].
  void add_flight(std::string_view name, std::uint64_t serial, std::int64_t begin_ns,
                  std::int64_t end_ns);
  /// Rows are lanes' threads.
  void name_row(int row, std::string name);
  /// Writes the file; an error names the path.
  base::Status write();

 private:
  struct Event {
    const std::string* name;
    const std::string* detail;  // null: none
    std::uint64_t row_or_serial;
    std::int64_t begin_ns;
    std::int64_t end_ns;
    bool flight;
  };

  void add(const TracedRun& run, Event event);
  /// The text's one copy.
  const std::string* keep(std::string_view text) TROUPE_REQUIRES(mutex_);

  const std::string path_;
  const std::uint64_t events_max_;
  base::Mutex mutex_;
  std::unordered_map<std::string, int> texts_ TROUPE_GUARDED_BY(mutex_);  // keys do not move
  std::vector<Event> events_ TROUPE_GUARDED_BY(mutex_);
  std::vector<std::pair<int, std::string>> rows_ TROUPE_GUARDED_BY(mutex_);
  std::uint64_t dropped_ TROUPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace troupe::engine
