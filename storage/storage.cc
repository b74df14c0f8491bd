// SPDX-License-Identifier: Apache-2.0
// The pools of a Storage, by device.
#include "storage/storage.h"

#include "base/mutex.h"
#include "storage/memory_source.h"
#include "storage/pool.h"

namespace troupe::storage {

/// Pools are made under the mutex and used without it.
class Storage::Impl {
 public:
  Impl(const PoolOptions& host, const PoolOptions& gpu) : host_(host), gpu_(gpu) {}
  ~Impl() {
    for (Pool* pool : pools()) pool->close();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Pool& pool(base::Device device) {
    const base::MutexLock lock(mutex_);
    Pool*& pool = pools_[device];
    if (pool == nullptr) {
      pool = new Pool(device, device.host_memory() ? host_ : gpu_, make_memory_source(device));
    }
    return *pool;
  }
  Pool& pinned_pool() {
    const base::MutexLock lock(mutex_);
    if (pinned_ == nullptr) pinned_ = new Pool(base::Device{}, host_, make_pinned_source());
    return *pinned_;
  }
  /// Null when nobody has asked for it yet.
  Pool* find_pinned() const {
    const base::MutexLock lock(mutex_);
    return pinned_;
  }
  /// Null when the device has none yet.
  Pool* find(base::Device device) const {
    const base::MutexLock lock(mutex_);
    const auto found = pools_.find(device);
    return found == pools_.end() ? nullptr : found->second;
  }
  std::vector<Pool*> pools() const {
    const base::MutexLock lock(mutex_);
    std::vector<Pool*> all;
    for (const auto& [device, pool] : pools_) all.push_back(pool);
    if (pinned_ != nullptr) all.push_back(pinned_);
    return all;
  }
  std::vector<base::Device> devices() const {
    const base::MutexLock lock(mutex_);
    std::vector<base::Device> all;
    for (const auto& [device, pool] : pools_) all.push_back(device);
    return all;
  }

 private:
  const PoolOptions host_;
  const PoolOptions gpu_;
  mutable base::Mutex mutex_;
  std::map<base::Device, Pool*> pools_ TROUPE_GUARDED_BY(mutex_);  // deleted by close()
  Pool* pinned_ TROUPE_GUARDED_BY(mutex_) = nullptr;               // likewise
};

Storage::Storage(const PoolOptions& host, const PoolOptions& gpu)
    : impl_(std::make_unique<Impl>(host, gpu)) {}

Storage::~Storage() = default;

base::BufferPool& Storage::pool(base::Device device) {
  return impl_->pool(device);
}

base::BufferPool& Storage::pinned_pool() {
  return impl_->pinned_pool();
}

base::Result<base::Buffer> Storage::allocate_arena(base::Device device, std::size_t bytes,
                                                   std::string_view holder) {
  return impl_->pool(device).allocate_arena(bytes, holder);
}

PoolFigures Storage::statistics(base::Device device) const {
  const Pool* const pool = impl_->find(device);
  return pool == nullptr ? PoolFigures{} : pool->statistics();
}

PoolFigures Storage::pinned_statistics() const {
  const Pool* const pool = impl_->find_pinned();
  return pool == nullptr ? PoolFigures{} : pool->statistics();
}

std::vector<base::Device> Storage::devices() const {
  return impl_->devices();
}

void Storage::trim() {
  for (Pool* pool : impl_->pools()) pool->trim();
}

}  // namespace troupe::storage
