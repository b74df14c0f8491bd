// SPDX-License-Identifier: Apache-2.0
// The finder's queue and thread.
#include "cluster/start_finder.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "base/log.h"

namespace troupe::cluster {

struct StartFinder::Shared {
  Find find;
  Found found;
  std::mutex mutex;  // of all below
  std::condition_variable changed;
  std::deque<actors::FindStart> waiting;
  bool finding = false;  // in find(), which nobody can end
  bool stop = false;
};

StartFinder::StartFinder(Find find, Found found, std::size_t waiting_max, std::uint64_t patience_ms)
    : waiting_max_(waiting_max), patience_ms_(patience_ms), shared_(std::make_shared<Shared>()) {
  shared_->find = std::move(find);
  shared_->found = std::move(found);
  thread_ = std::thread([shared = shared_] { run(shared); });
}

StartFinder::~StartFinder() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->waiting.clear();
  shared_->changed.notify_all();
  const bool idle = shared_->changed.wait_for(lock, std::chrono::milliseconds(patience_ms_),
                                              [this] { return !shared_->finding; });
  lock.unlock();
  if (idle) {
    thread_.join();
  } else {
    base::log_warn("the search for a job's start does not end; it is left alone");
    thread_.detach();
  }
}

bool StartFinder::add(actors::FindStart find) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->waiting.size() >= waiting_max_) return false;
  shared_->waiting.push_back(std::move(find));
  shared_->changed.notify_all();
  return true;
}

void StartFinder::run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->stop || !shared->waiting.empty(); });
    if (shared->stop) return;
    const actors::FindStart next = std::move(shared->waiting.front());
    shared->waiting.pop_front();
    shared->finding = true;
    lock.unlock();
    const actors::StartFound result = shared->find(next);
    lock.lock();
    shared->finding = false;
    shared->changed.notify_all();
    if (shared->stop) return;
    // Not under the lock: the taker may hold one of its own while it calls add(). Until it has
    // returned, the destructor joins.
    lock.unlock();
    shared->found(result);
    lock.lock();
  }
}

}  // namespace troupe::cluster
