// SPDX-License-Identifier: Apache-2.0
// One queue of steps (closures, poisonings, events, waits) and the thread that takes them in order.
#include "tests/support/delayed_stream.h"

#include <cstring>
#include <exception>
#include <new>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Passed when the stream's thread has reached it.
class DelayedStream::Point final : public base::Event {
 public:
  bool passed() const override {
    const base::MutexLock lock(mutex_);
    return passed_;
  }
  base::Status wait_on_host() const override {
    const base::MutexLock lock(mutex_);
    while (!passed_) changed_.wait(mutex_);
    return status_;
  }
  base::Result<std::int64_t> ns_since(const base::Event& earlier) const override {
    const auto length = at() - dynamic_cast<const Point&>(earlier).at();
    return std::chrono::nanoseconds(length).count();
  }
  void pass(base::Status status) {
    const base::MutexLock lock(mutex_);
    at_ = std::chrono::steady_clock::now();
    passed_ = true;
    status_ = std::move(status);
    changed_.notify_all();
  }

 private:
  std::chrono::steady_clock::time_point at() const {
    const base::MutexLock lock(mutex_);
    return at_;
  }

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  bool passed_ TROUPE_GUARDED_BY(mutex_) = false;
  base::Status status_ TROUPE_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point at_ TROUPE_GUARDED_BY(mutex_);
};

class DelayedStream::Graph final : public base::StreamGraph {
 public:
  std::vector<std::function<void()>> steps;
};

namespace {

/// The closure's error; nobody else is on this thread to catch what it throws.
base::Status outcome_of(const std::function<base::Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc& exception) {
    return base::error(base::Errc::resource_exhausted, "stream work threw {}", exception.what());
  } catch (const std::exception& exception) {
    return base::error(base::Errc::internal, "stream work threw {}", exception.what());
  }
}

}  // namespace

DelayedStream::DelayedStream(const DelayedStreamOptions& options)
    : options_(options), held_(options.held), thread_([this] { run(); }) {}

DelayedStream::~DelayedStream() {
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void DelayedStream::issue(std::function<void()> step) {
  if (written_) {
    written_->steps.push_back(std::move(step));
    return;
  }
  const base::MutexLock lock(mutex_);
  steps_.push_back(std::move(step));
  changed_.notify_all();
}

void DelayedStream::enqueue_host(std::function<base::Status()> work) {
  issue([this, f = std::move(work)] {
    if (!broken_.ok()) return;
    std::this_thread::sleep_for(options_.delay);
    broken_ = outcome_of(f);
    const base::MutexLock lock(mutex_);
    ++ran_;
  });
}

void DelayedStream::poison(std::span<std::byte> output) {
  // All bits set is a NaN in every floating-point type, and an unlikely integer.
  issue([output] { std::memset(output.data(), 0xff, output.size()); });
}

base::Status DelayedStream::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  poison({to, bytes});
  enqueue_host([to, from, bytes] {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return base::Status();
  });
  return {};
}

base::Status DelayedStream::clear(std::byte* to, std::size_t bytes) {
  poison({to, bytes});
  enqueue_host([to, bytes] {
    if (bytes > 0) std::memset(to, 0, bytes);
    return base::Status();
  });
  return {};
}

std::shared_ptr<base::Event> DelayedStream::record() {
  TROUPE_CHECK(!written_, "an event is recorded while a graph is written down");
  auto point = std::make_shared<Point>();
  issue([this, point] { point->pass(broken_); });
  return point;
}

std::shared_ptr<base::Event> DelayedStream::record_timed() {
  return record();
}

void DelayedStream::wait_for(const std::shared_ptr<base::Event>& event) {
  TROUPE_CHECK(!written_, "an event is awaited while a graph is written down");
  issue([this, event] {
    base::Status status = event->wait_on_host();
    if (broken_.ok()) broken_ = std::move(status);
  });
}

base::Status DelayedStream::begin_graph() {
  TROUPE_CHECK(!written_, "a graph is being written down");
  written_ = std::make_shared<Graph>();
  return {};
}

base::Result<std::shared_ptr<base::StreamGraph>> DelayedStream::end_graph() {
  TROUPE_CHECK(written_, "no graph is being written down");
  const std::shared_ptr<Graph> graph = std::exchange(written_, nullptr);
  const base::MutexLock lock(mutex_);
  TROUPE_TRY(std::exchange(refusal_, {}));
  ++graphs_;
  return std::shared_ptr<base::StreamGraph>(graph);
}

base::Status DelayedStream::launch(const std::shared_ptr<base::StreamGraph>& graph) {
  const auto own = std::dynamic_pointer_cast<Graph>(graph);
  TROUPE_CHECK(own, "a graph of another kind of stream");
  {
    const base::MutexLock lock(mutex_);
    ++launches_;
  }
  issue([own] {
    for (const std::function<void()>& step : own->steps) step();
  });
  return {};
}

void DelayedStream::refuse_graph(base::Status failure) {
  const base::MutexLock lock(mutex_);
  refusal_ = std::move(failure);
}

std::uint64_t DelayedStream::graphs() const {
  const base::MutexLock lock(mutex_);
  return graphs_;
}

std::uint64_t DelayedStream::launches() const {
  const base::MutexLock lock(mutex_);
  return launches_;
}

void DelayedStream::hold() {
  const base::MutexLock lock(mutex_);
  held_ = true;
}

void DelayedStream::release() {
  const base::MutexLock lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

std::uint64_t DelayedStream::ran() const {
  const base::MutexLock lock(mutex_);
  return ran_;
}

void DelayedStream::run() {
  for (;;) {
    std::function<void()> step;
    {
      const base::MutexLock lock(mutex_);
      while (!stopping_ && (held_ || steps_.empty())) changed_.wait(mutex_);
      if (steps_.empty()) return;
      step = std::move(steps_.front());
      steps_.pop_front();
    }
    step();
  }
}

}  // namespace troupe::tests
