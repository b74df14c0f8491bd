// SPDX-License-Identifier: Apache-2.0
// LruCache: a bounded map that drops the entry which was not used for longest. Keys are asked for
// by views of them, so that a lookup copies nothing.
#pragma once

#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"

namespace troupe::base {

/// `Keys` says what a key is, all in static functions:
/// - `Key` owns what identifies an entry, `View` names it and is cheap to copy.
/// - `Key own(View)` copies what is named; `View view(const Key&)` names it where it stays.
/// - `std::size_t hash(View)` and `bool equal(View, View)`; a view equals itself.
/// A default `Value` means "none". Any thread.
template <typename Keys, typename Value>
class LruCache {
 public:
  using View = typename Keys::View;

  /// Keeps `entries_max` at most, which is more than 0.
  explicit LruCache(std::size_t entries_max) : entries_max_(entries_max) {
    TROUPE_CHECK(entries_max > 0, "a cache needs room for one entry");
  }

  /// Value() where the key is not known. Counts as a use.
  Value find(const View& key) {
    const MutexLock lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) return Value();
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->value;
  }

  /// From now on find() gives what is returned here: `value`, or what another thread has kept for
  /// this key in the meantime.
  Value keep(const View& key, Value value) {
    const MutexLock lock(mutex_);
    if (const auto it = index_.find(key); it != index_.end()) return it->second->value;
    entries_.push_front({Keys::own(key), std::move(value)});
    const auto newest = entries_.begin();
    index_.emplace(Keys::view(newest->key), newest);
    if (entries_.size() > entries_max_) {
      index_.erase(Keys::view(entries_.back().key));
      entries_.pop_back();
    }
    return newest->value;
  }

  std::size_t size() const {
    const MutexLock lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    typename Keys::Key key;
    Value value;
  };
  struct Hash {
    std::size_t operator()(const View& key) const { return Keys::hash(key); }
  };
  struct Equal {
    bool operator()(const View& a, const View& b) const { return Keys::equal(a, b); }
  };
  using Entries = std::list<Entry>;

  const std::size_t entries_max_;
  mutable Mutex mutex_;
  Entries entries_ TROUPE_GUARDED_BY(mutex_);  // most recently used first; the index names keys
  std::unordered_map<View, typename Entries::iterator, Hash, Equal> index_
      TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::base
