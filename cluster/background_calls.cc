// SPDX-License-Identifier: Apache-2.0
// The queue, and threads that nobody joins: the destructor waits for what they do, not for them.
#include "cluster/background_calls.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"

namespace troupe::cluster {

struct BackgroundCalls::Keyed {
  std::string key;
  Call call;
};

struct BackgroundCalls::Shared {
  std::deque<Keyed>::iterator waiting_of(const std::string& key) {
    return std::find_if(waiting.begin(), waiting.end(),
                        [&key](const Keyed& keyed) { return keyed.key == key; });
  }
  std::deque<Keyed>::iterator next() {
    return std::find_if(waiting.begin(), waiting.end(),
                        [this](const Keyed& keyed) { return !running.contains(keyed.key); });
  }

  std::mutex mutex;  // of all below
  std::condition_variable changed;
  std::deque<Keyed> waiting;      // one of a key; none may run while a thread is free
  std::set<std::string> running;  // one key for each thread
  std::size_t reporting = 0;      // so many of them are done with their call
  bool stop = false;
};

BackgroundCalls::BackgroundCalls(std::string name, std::size_t waiting_max,
                                 std::uint64_t patience_ms)
    : name_(std::move(name)),
      waiting_max_(waiting_max),
      patience_ms_(patience_ms),
      shared_(std::make_shared<Shared>()) {}

BackgroundCalls::~BackgroundCalls() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->waiting.clear();
  shared_->changed.wait_for(lock, std::chrono::milliseconds(patience_ms_),
                            [this] { return shared_->running.empty(); });
  // Reports are the owner's own code: they end, and they need it.
  shared_->changed.wait(lock, [this] { return shared_->reporting == 0; });
  for (const std::string& key : shared_->running) {
    base::log_warn("{} {} does not end; it is left alone", name_, key);
  }
}

bool BackgroundCalls::add(std::string key, Call call) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->stop) return false;
  if (const auto older = shared_->waiting_of(key); older != shared_->waiting.end()) {
    older->call = std::move(call);
    return true;
  }
  if (shared_->running.size() == kThreadsMax || shared_->running.contains(key)) {
    if (shared_->waiting.size() >= waiting_max_) return false;
    shared_->waiting.push_back({std::move(key), std::move(call)});
    return true;
  }
  try {
    std::thread([shared = shared_, now = Keyed{key, std::move(call)}]() mutable {
      run(shared, std::move(now));
    }).detach();
  } catch (const std::system_error& error) {
    base::log_warn("{} {}: no thread: {}", name_, key, error.what());
    return false;
  }
  shared_->running.insert(std::move(key));
  return true;
}

void BackgroundCalls::run(const std::shared_ptr<Shared>& shared, Keyed now) {
  while (true) {
    const Report report = now.call();
    std::unique_lock lock(shared->mutex);
    if (!shared->stop && shared->waiting_of(now.key) == shared->waiting.end()) {
      shared->reporting += 1;
      // Not under the lock: a report may take one that its owner holds while it calls add().
      lock.unlock();
      report();
      lock.lock();
      shared->reporting -= 1;
    }
    shared->running.erase(now.key);
    const auto next = shared->next();
    if (next == shared->waiting.end()) {
      shared->changed.notify_all();
      return;
    }
    now = std::move(*next);
    shared->waiting.erase(next);
    shared->running.insert(now.key);
  }
}

}  // namespace troupe::cluster
