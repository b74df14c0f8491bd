// SPDX-License-Identifier: Apache-2.0
// StreamTimes: when the work of operations ran on a device's stream, for the trace. Of the thread
// that issues.
// Private to this folder.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/stream.h"
#include "engine/trace.h"

namespace troupe::engine {

/// Puts an event around the work of each operation; the trace has the times once these have passed.
class StreamTimes {
 public:
  /// Rows of the trace: `row` is the stream's. Waits for the work issued so far, to know when the
  /// stream's first event passed on the engine's clock.
  StreamTimes(base::Stream& stream, Trace& trace, const base::Clock& clock, int row);
  /// Waits for all work.
  ~StreamTimes();
  StreamTimes(const StreamTimes&) = delete;
  StreamTimes& operator=(const StreamTimes&) = delete;

  /// An operation is issued from here on.
  void begin();
  /// It has been issued.
  void end(const TracedRun& run);

 private:
  struct Span {
    std::string name, detail;
    std::shared_ptr<base::Event> begin, end;
  };
  void take(const Span& span);

  base::Stream& stream_;
  Trace& trace_;
  const int row_;
  std::shared_ptr<base::Event> begin_;
  std::shared_ptr<base::Event> known_;  // null: the stream knows no times
  std::int64_t known_ns_ = 0;           // when that one passed
  std::deque<Span> spans_;
};

}  // namespace troupe::engine
