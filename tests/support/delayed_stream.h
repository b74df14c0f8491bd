// SPDX-License-Identifier: Apache-2.0
// DelayedStream: the test device `delayed`. Host closures run on the stream's own thread, after
// issue has returned, in stream order, with events: everything that will run on a GPU can run here
// and must give the same bits. A graph is the list of what was issued, run again at each launch. It
// knows nothing of the engine. What issues belongs to the issuing thread; hold, release and the
// counters to any.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/graph_stream.h"
#include "base/mutex.h"

namespace troupe::tests {

/// How late the stream is.
struct DelayedStreamOptions {
  base::Device device{base::DeviceKind::delayed, 0};
  /// Slept before each closure, behind the poisoning of its outputs.
  std::chrono::microseconds delay{20};
  /// Starts held: nothing runs before release().
  bool held = false;
};

/// An error of a closure is carried by every later event, as on a GPU: the stream is broken then,
/// its later closures do not run.
class DelayedStream final : public base::GraphStream {
 public:
  explicit DelayedStream(const DelayedStreamOptions& options = {});
  /// Runs what was issued (held or not), then joins the thread.
  ~DelayedStream() override;
  DelayedStream(const DelayedStream&) = delete;
  DelayedStream& operator=(const DelayedStream&) = delete;

  base::Device device() const override { return options_.device; }
  void enqueue_host(std::function<base::Status()> work) override;
  void poison(std::span<std::byte> output) override;
  base::Status copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  base::Status clear(std::byte* to, std::size_t bytes) override;
  std::shared_ptr<base::Event> record() override;
  std::shared_ptr<base::Event> record_timed() override;
  void wait_for(const std::shared_ptr<base::Event>& event) override;
  base::Status begin_graph() override;
  base::Result<std::shared_ptr<base::StreamGraph>> end_graph() override;
  base::Status launch(const std::shared_ptr<base::StreamGraph>& graph) override;

  /// Work waits from the next closure on.
  void hold();
  void release();
  /// Closures that ran, for tests.
  std::uint64_t ran() const;
  /// Graphs that were written down, and their launches, for tests.
  std::uint64_t graphs() const;
  std::uint64_t launches() const;
  /// What is written down next fails with `failure`, as where a library waits for its device.
  void refuse_graph(base::Status failure);

 private:
  class Point;
  class Graph;

  void issue(std::function<void()> step);
  void run();

  const DelayedStreamOptions options_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::function<void()>> steps_ TROUPE_GUARDED_BY(mutex_);
  bool held_ TROUPE_GUARDED_BY(mutex_);
  bool stopping_ TROUPE_GUARDED_BY(mutex_) = false;
  std::uint64_t ran_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t graphs_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t launches_ TROUPE_GUARDED_BY(mutex_) = 0;
  base::Status refusal_ TROUPE_GUARDED_BY(mutex_);
  std::shared_ptr<Graph> written_;  // what is being written down; the issuing thread only
  base::Status broken_;             // the stream's thread only
  std::thread thread_;
};

}  // namespace troupe::tests
