// SPDX-License-Identifier: Apache-2.0
// Taking, caching and returning blocks. System calls happen outside the mutex.
#include "storage/pool.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/units.h"

namespace troupe::storage {

namespace {

/// An arena's block for `bytes`.
std::size_t arena_bytes(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kBlockAlignment - 1) / kBlockAlignment *
         kBlockAlignment;
}

std::unique_ptr<MemorySource> take_value(base::Result<std::unique_ptr<MemorySource>>& source) {
  return source.ok() ? std::move(source).value() : nullptr;
}

/// The pools of this process that are not closed. Its mutex is taken before a pool's.
struct OpenPools {
  base::Mutex mutex;
  std::set<Pool*> all TROUPE_GUARDED_BY(mutex);
};

OpenPools& open_pools() {
  static auto* const pools = new OpenPools();  // never destroyed: a pool may be closed late
  return *pools;
}

/// Every Storage has a pool of its own for a device, and all share its memory.
void trim_all(base::Device device) {
  OpenPools& open = open_pools();
  const base::MutexLock lock(open.mutex);
  for (Pool* const pool : open.all) {
    if (pool->device() == device) pool->trim();
  }
}

}  // namespace

Pool::Pool(base::Device device, const PoolOptions& options,
           base::Result<std::unique_ptr<MemorySource>> source)
    : device_(device),
      options_(options),
      source_status_(source.status()),
      source_(take_value(source)),
      limit_bytes_(options.limit_bytes > 0 || !source_ ? options.limit_bytes
                                                       : source_->total_bytes()) {
  holders_.push_back({"others", 0});
  holder_index_.emplace(holders_.front().name, 0);
  OpenPools& open = open_pools();
  const base::MutexLock lock(open.mutex);
  open.all.insert(this);
}

Pool::~Pool() {
  trim();
}

base::Result<base::Buffer> Pool::allocate(std::size_t bytes, std::string_view holder) {
  TROUPE_TRY(source_status_);
  if (bytes > limit_bytes_ || bytes > kRequestBytesMax) return out_of_memory(bytes, 0, holder);
  TROUPE_TRY_ASSIGN(base::Buffer buffer, take(bytes, size_class(bytes), holder));
  // All bits set is a NaN in every floating-point type: who reads before writing shows it.
  if (options_.fill_with_nan) {
    TROUPE_TRY(source_->fill(buffer.data(), std::byte{0xff}, bytes));
  }
  return buffer;
}

base::Result<base::Buffer> Pool::allocate_arena(std::size_t bytes, std::string_view holder) {
  TROUPE_TRY(source_status_);
  if (bytes > limit(kNoClass) || bytes > kRequestBytesMax) {
    return out_of_memory(bytes, kNoClass, holder);
  }
  TROUPE_TRY_ASSIGN(base::Buffer buffer, take(bytes, kNoClass, holder));
  if (!source_->zeroed(huge(arena_bytes(bytes)))) {
    TROUPE_TRY(source_->fill(buffer.data(), std::byte{0}, bytes));
  }
  return buffer;
}

base::Result<base::Buffer> Pool::take(std::size_t bytes, std::size_t size_class,
                                      std::string_view holder) {
  Block* block = nullptr;
  {
    const base::MutexLock lock(mutex_);
    if (size_class != kNoClass && cached_[size_class] != nullptr) {
      block = std::exchange(cached_[size_class], cached_[size_class]->next);
      cached_bytes_ -= block->bytes;
      ++statistics_.hits;
      count_use(block, holder);
    }
  }
  if (block == nullptr) {
    TROUPE_TRY_ASSIGN(block, take_from_system(bytes, size_class, holder));
  }
  return base::Buffer(block->data, bytes, device_, [block, this] { release(block); });
}

base::Result<Pool::Block*> Pool::take_from_system(std::size_t wanted, std::size_t size_class,
                                                  std::string_view holder) {
  const std::size_t bytes =
      size_class == kNoClass ? arena_bytes(wanted) : size_class_bytes(size_class);
  if (!reserve(bytes, size_class)) {
    const base::MutexLock lock(trim_mutex_);
    if (!reserve(bytes, size_class)) {
      free_cached();
      if (!reserve(bytes, size_class)) return out_of_memory(wanted, size_class, holder);
    }
  }
  const bool large = huge(bytes);
  base::Result<std::byte*> data = source_->take(bytes, large);
  if (!data.ok()) {
    trim_all(device_);
    data = source_->take(bytes, large);
  }
  if (!data.ok()) {
    {
      const base::MutexLock lock(mutex_);
      unreserve(bytes, size_class);
    }
    if (data.status().code() == base::Errc::resource_exhausted) {
      return out_of_memory(wanted, size_class, holder, "; " + data.status().text());
    }
    return data.status().with_context(
        fmt::format("[storage] '{}' wanted {}", holder, base::format_bytes(wanted)));
  }
  const base::MutexLock lock(mutex_);
  if (unused_ == nullptr) unused_ = &blocks_.emplace_back();
  Block* const block = std::exchange(unused_, unused_->next);
  *block = {.data = *data, .bytes = bytes, .size_class = size_class};
  ++statistics_.misses;
  count_use(block, holder);
  return block;
}

bool Pool::reserve(std::size_t bytes, std::size_t size_class) {
  const base::MutexLock lock(mutex_);
  const bool apart = has_own_limit(size_class);
  const std::uint64_t held = apart ? apart_bytes_ : statistics_.reserved_bytes - apart_bytes_;
  if (held + bytes > limit(size_class)) return false;
  statistics_.reserved_bytes += bytes;
  if (apart) apart_bytes_ += bytes;
  return true;
}

void Pool::unreserve(std::size_t bytes, std::size_t size_class) {
  statistics_.reserved_bytes -= bytes;
  if (has_own_limit(size_class)) apart_bytes_ -= bytes;
}

void Pool::count_use(Block* block, std::string_view holder) {
  block->holder = find_holder(holder);
  holders_[block->holder].used_bytes += block->bytes;
  users_.fetch_add(1, std::memory_order_relaxed);
  statistics_.used_bytes += block->bytes;
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.used_bytes);
}

std::size_t Pool::find_holder(std::string_view name) {
  const auto found = holder_index_.find(name);
  if (found != holder_index_.end()) return found->second;
  if (holders_.size() >= kHoldersMax) return 0;
  holders_.push_back({std::string(name), 0});
  holder_index_.emplace(holders_.back().name, holders_.size() - 1);
  return holders_.size() - 1;
}

void Pool::release(Block* block) {
  bool keep = false;
  {
    const base::MutexLock lock(mutex_);
    holders_[block->holder].used_bytes -= block->bytes;
    statistics_.used_bytes -= block->bytes;
    keep = !closed_ && block->size_class != kNoClass &&
           cached_bytes_ + block->bytes <= options_.cache_bytes_max;
    if (keep) {
      block->next = std::exchange(cached_[block->size_class], block);
      cached_bytes_ += block->bytes;
    } else {
      block->next = nullptr;
    }
  }
  if (!keep) free_blocks(block);
  drop_user();
}

void Pool::drop_user() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

Pool::Block* Pool::take_cached() {
  Block* all = nullptr;
  for (Block*& list : cached_) {
    while (list != nullptr) {
      Block* const block = std::exchange(list, list->next);
      block->next = std::exchange(all, block);
    }
  }
  cached_bytes_ = 0;
  return all;
}

void Pool::free_blocks(Block* blocks) {
  while (blocks != nullptr) {
    Block* const block = std::exchange(blocks, blocks->next);
    source_->give(block->data, block->bytes, huge(block->bytes));
    const base::MutexLock lock(mutex_);
    unreserve(block->bytes, block->size_class);
    block->next = std::exchange(unused_, block);
  }
}

void Pool::trim() {
  const base::MutexLock lock(trim_mutex_);
  free_cached();
}

void Pool::free_cached() {
  Block* blocks = nullptr;
  {
    const base::MutexLock lock(mutex_);
    blocks = take_cached();
  }
  free_blocks(blocks);
}

void Pool::close() {
  {
    OpenPools& open = open_pools();
    const base::MutexLock lock(open.mutex);
    open.all.erase(this);
  }
  {
    const base::MutexLock lock(mutex_);
    closed_ = true;
  }
  trim();
  drop_user();
}

base::Status Pool::out_of_memory(std::size_t wanted, std::size_t size_class,
                                 std::string_view holder, std::string_view reason) {
  const PoolFigures now = statistics();
  {
    const base::MutexLock lock(mutex_);
    ++statistics_.failures;
  }
  std::vector<std::pair<std::uint64_t, std::string>> largest;
  for (const auto& [name, bytes] : now.holders) largest.emplace_back(bytes, name);
  std::sort(largest.rbegin(), largest.rend());
  if (largest.size() > kHoldersNamed) largest.resize(kHoldersNamed);
  std::string names;
  for (const auto& [bytes, name] : largest) {
    fmt::format_to(std::back_inserter(names), "{}'{}' {}", names.empty() ? "" : ", ", name,
                   base::format_bytes(bytes));
  }
  return base::error(base::Errc::resource_exhausted,
                     "[storage] {}: out of memory: '{}' wanted {}; {} used, {} held of a limit of "
                     "{}; largest holders: {}{}",
                     device_.to_string(), holder, base::format_bytes(wanted),
                     base::format_bytes(now.used_bytes), base::format_bytes(now.reserved_bytes),
                     base::format_bytes(limit(size_class)), names.empty() ? "none" : names, reason);
}

PoolFigures Pool::statistics() const {
  const base::MutexLock lock(mutex_);
  PoolFigures now = statistics_;
  for (const Holder& holder : holders_) {
    if (holder.used_bytes > 0) now.holders[holder.name] += holder.used_bytes;
  }
  return now;
}

}  // namespace troupe::storage
