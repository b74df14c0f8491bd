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
  explicit Impl(const PoolOptions& options) : options_(options) {}
  ~Impl() {
    for (const auto& [device, pool] : pools_) pool->close();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Pool& pool(base::Device device) {
    const base::MutexLock lock(mutex_);
    Pool*& pool = pools_[device];
    if (pool == nullptr) pool = new Pool(device, options_, make_memory_source(device));
    return *pool;
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
    return all;
  }

 private:
  const PoolOptions options_;
  mutable base::Mutex mutex_;
  std::map<base::Device, Pool*> pools_ TROUPE_GUARDED_BY(mutex_);  // deleted by close()
};

Storage::Storage(const PoolOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Storage::~Storage() = default;

base::BufferPool& Storage::pool(base::Device device) {
  return impl_->pool(device);
}

base::Result<base::Buffer> Storage::allocate_arena(base::Device device, std::size_t bytes,
                                                   std::string_view holder) {
  return impl_->pool(device).allocate_arena(bytes, holder);
}

PoolFigures Storage::statistics(base::Device device) const {
  const Pool* const pool = impl_->find(device);
  return pool == nullptr ? PoolFigures{} : pool->statistics();
}

std::vector<base::Device> Storage::devices() const {
  std::vector<base::Device> all;
  for (const Pool* pool : impl_->pools()) all.push_back(pool->device());
  return all;
}

void Storage::trim() {
  for (Pool* pool : impl_->pools()) pool->trim();
}

}  // namespace troupe::storage
