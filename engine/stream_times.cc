// SPDX-License-Identifier: Apache-2.0
// Times follow from the distance of each event to the one before: devices give it as a float.
#include "engine/stream_times.h"

#include <utility>

namespace troupe::engine {

StreamTimes::StreamTimes(base::Stream& stream, Trace& trace, const base::Clock& clock, int row)
    : stream_(stream), trace_(trace), row_(row), known_(stream.record_timed()) {
  if (known_ == nullptr) return;
  static_cast<void>(known_->wait_on_host());  // an error surfaces where results are read
  known_ns_ = clock.now_ns();
}

StreamTimes::~StreamTimes() {
  for (const Span& span : spans_) {
    static_cast<void>(span.end->wait_on_host());
    take(span);
  }
}

void StreamTimes::begin() {
  if (known_ != nullptr) begin_ = stream_.record_timed();
}

void StreamTimes::end(const TracedRun& run) {
  if (known_ == nullptr) return;
  spans_.push_back(
      {std::string(run.name), std::string(run.detail), std::move(begin_), stream_.record_timed()});
  while (!spans_.empty() && spans_.front().end->passed()) {
    take(spans_.front());
    spans_.pop_front();
  }
}

void StreamTimes::take(const Span& span) {
  const base::Result<std::int64_t> before = span.begin->ns_since(*known_);
  const base::Result<std::int64_t> length = span.end->ns_since(*span.begin);
  if (!before.ok() || !length.ok()) return;  // the stream is broken
  const std::int64_t begin_ns = known_ns_ + *before;
  known_ = span.end;
  known_ns_ = begin_ns + *length;
  trace_.add_run({span.name, span.detail}, row_, begin_ns, known_ns_);
}

}  // namespace troupe::engine
