// SPDX-License-Identifier: Apache-2.0
// The queue, and threads that nobody joins: the destructor waits for what they do, not for them.
#include "cluster/background_calls.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace troupe::cluster {

struct BackgroundCalls::Keyed {
  Turn turn;
  Call call;
};

struct BackgroundCalls::Shared {
  Shared(std::string its_name, std::size_t most) : name(std::move(its_name)), group_max(most) {}
  std::deque<Keyed>::iterator waiting_of(const std::string& key) TROUPE_REQUIRES(mutex) {
    return std::find_if(waiting.begin(), waiting.end(),
                        [&key](const Keyed& keyed) { return keyed.turn.key == key; });
  }
  /// May it run beside those that do?
  bool may_run(const std::string& key, const std::string& group) const TROUPE_REQUIRES(mutex) {
    return !running.contains(key) && has_room(group);
  }
  bool has_room(const std::string& group) const TROUPE_REQUIRES(mutex) {
    if (group.empty()) return true;
    const auto same = std::count_if(running.begin(), running.end(),
                                    [&group](const auto& each) { return each.second == group; });
    return static_cast<std::size_t>(same) < group_max;
  }
  /// Half of the places are one group's at most: others find one, too.
  bool may_wait(const std::string& group, std::size_t most) const TROUPE_REQUIRES(mutex) {
    if (waiting.size() >= most) return false;
    if (group.empty()) return true;
    const auto same = std::count_if(waiting.begin(), waiting.end(), [&group](const Keyed& keyed) {
      return keyed.turn.group == group;
    });
    return static_cast<std::size_t>(same) < (most + 1) / 2;
  }
  std::deque<Keyed>::iterator next() TROUPE_REQUIRES(mutex) {
    return std::find_if(waiting.begin(), waiting.end(),
                        [this](const Keyed& keyed) TROUPE_REQUIRES(mutex) {
                          return may_run(keyed.turn.key, keyed.turn.group);
                        });
  }
  void begin_more(const std::shared_ptr<Shared>& self) TROUPE_REQUIRES(mutex);
  void drop_waiting(const std::shared_ptr<Shared>& self) TROUPE_REQUIRES(mutex);
  /// What is told when `ended`, which still counts as running, makes room.
  std::vector<Report> moved_by(const Keyed& ended) const TROUPE_REQUIRES(mutex);

  const std::string name;
  const std::size_t group_max;
  base::Mutex mutex;
  base::CondVar changed;
  // One of a key; none may run while a thread is free.
  std::deque<Keyed> waiting TROUPE_GUARDED_BY(mutex);
  // Of each thread the key and the group.
  std::map<std::string, std::string> running TROUPE_GUARDED_BY(mutex);
  std::size_t reporting TROUPE_GUARDED_BY(mutex) = 0;  // so many are done with their call
  bool stop TROUPE_GUARDED_BY(mutex) = false;
};

BackgroundCalls::BackgroundCalls(std::string name, std::size_t waiting_max,
                                 std::uint64_t patience_ms, std::size_t group_max)
    : waiting_max_(waiting_max),
      patience_ms_(patience_ms),
      shared_(std::make_shared<Shared>(std::move(name), group_max)) {}

BackgroundCalls::~BackgroundCalls() {
  const base::MutexLock lock(shared_->mutex);
  shared_->stop = true;
  shared_->drop_waiting(shared_);
  shared_->changed.wait_for(
      shared_->mutex, std::chrono::milliseconds(patience_ms_),
      [this]() TROUPE_REQUIRES(shared_->mutex) { return shared_->running.empty(); });
  // Reports are the owner's own code: they end, and they need it.
  shared_->changed.wait(
      shared_->mutex, [this]() TROUPE_REQUIRES(shared_->mutex) { return shared_->reporting == 0; });
  for (const auto& [key, group] : shared_->running) {
    base::log_warn("{} {} does not end; it is left alone", shared_->name, key);
  }
}

/// On a thread of its own: to let go of a folder is to look into it.
void BackgroundCalls::Shared::drop_waiting(const std::shared_ptr<Shared>& self) {
  if (waiting.empty()) return;
  const std::string key = "what waited";
  auto dropped = std::make_shared<std::deque<Keyed>>(std::exchange(waiting, {}));
  try {
    std::thread([self, key, last = std::move(dropped)]() mutable {
      last.reset();
      const base::MutexLock lock(self->mutex);
      self->running.erase(key);
      self->changed.notify_all();
    }).detach();
    running.emplace(key, "");
  } catch (const std::system_error& error) {
    base::log_warn("{} {}: no thread: {}", name, key, error.what());
  }
}

/// Whoever waits does so behind one that runs, whose end looks again.
bool BackgroundCalls::add(Turn turn, Call call) {
  Call replaced;  // outlives the lock: nobody knows what its end does
  const base::MutexLock lock(shared_->mutex);
  if (shared_->stop) return false;
  if (const auto older = shared_->waiting_of(turn.key); older != shared_->waiting.end()) {
    replaced = std::exchange(older->call, std::move(call));
    older->turn = std::move(turn);
    shared_->begin_more(shared_);  // as of another group it may run
    return true;
  }
  const bool waits =
      shared_->running.size() == kThreadsMax || !shared_->may_run(turn.key, turn.group);
  if (waits && !shared_->may_wait(turn.group, waiting_max_)) return false;
  shared_->waiting.push_back({std::move(turn), std::move(call)});
  if (waits) return true;
  shared_->begin_more(shared_);
  if (!shared_->running.empty()) return true;
  shared_->waiting.clear();
  return false;
}

/// As many as may.
void BackgroundCalls::Shared::begin_more(const std::shared_ptr<Shared>& self) {
  while (running.size() < kThreadsMax) {
    const auto next = this->next();
    if (next == waiting.end()) return;
    try {
      std::thread([self, now = *next]() mutable {
        BackgroundCalls::run(self, std::move(now));
      }).detach();
    } catch (const std::system_error& error) {
      return base::log_warn("{} {}: no thread: {}", name, next->turn.key, error.what());
    }
    running.emplace(next->turn.key, next->turn.group);
    waiting.erase(next);
  }
}

std::vector<BackgroundCalls::Report> BackgroundCalls::Shared::moved_by(const Keyed& ended) const {
  const bool full = running.size() >= kThreadsMax;
  std::vector<Report> told;
  for (const Keyed& each : waiting) {
    const bool same = !ended.turn.group.empty() && each.turn.group == ended.turn.group;
    const bool first = full && has_room(each.turn.group);  // else it waits for its own group
    const bool behind = first || same || each.turn.key == ended.turn.key;
    if (behind && each.turn.moves) told.push_back(each.turn.moves);
  }
  return told;
}

/// The end of a call makes room for another one of its key and for one of its group, which may be
/// two.
void BackgroundCalls::run(const std::shared_ptr<Shared>& shared, Keyed now) {
  while (true) {
    const Report report = now.call();
    now.call = nullptr;
    const base::MutexLock lock(shared->mutex);
    if (!shared->stop) {
      std::vector<Report> told = shared->moved_by(now);
      if (shared->waiting_of(now.turn.key) == shared->waiting.end()) told.push_back(report);
      shared->reporting += 1;
      // Not under the lock: a report may take one that its owner holds while it calls add().
      shared->mutex.unlock();
      for (const Report& tell : told) tell();
      told.clear();
      shared->mutex.lock();
      shared->reporting -= 1;
    }
    shared->running.erase(now.turn.key);
    const auto next = shared->next();
    if (next == shared->waiting.end()) {
      shared->changed.notify_all();
      return;
    }
    now = std::move(*next);
    shared->waiting.erase(next);
    shared->running.emplace(now.turn.key, now.turn.group);
    shared->begin_more(shared);
  }
}

}  // namespace troupe::cluster
