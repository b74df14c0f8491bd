// SPDX-License-Identifier: Apache-2.0
// Pool: the recycling pool of one device. Blocks return to a free list per size class, up to the
// cache limit. Any thread. The Storage owns it until close(); then it lives as long as its last
// buffer, so a late buffer is never dangling.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "storage/memory_source.h"
#include "storage/size_class.h"
#include "storage/storage.h"

namespace troupe::storage {

/// See the top of the file.
class Pool final : public base::BufferPool {
 public:
  /// A device without memory in this build has a pool that answers `source`'s error.
  Pool(base::Device device, const PoolOptions& options,
       base::Result<std::unique_ptr<MemorySource>> source);

  base::Result<base::Buffer> allocate(std::size_t bytes, std::string_view holder) override;
  base::Device device() const override { return device_; }
  base::Result<base::Buffer> allocate_arena(std::size_t bytes, std::string_view holder);
  PoolFigures statistics() const;
  /// Gives cached blocks back to the system.
  void trim();
  /// The owner's last call: the pool deletes itself now, or with its last buffer.
  void close();

 private:
  static constexpr std::size_t kNoClass = kSizeClasses;  // of arenas
  static constexpr std::size_t kHoldersMax = 1024;       // further ones share "others"
  static constexpr std::size_t kHoldersNamed = 5;        // in errors

  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t size_class = kNoClass;
    std::size_t holder = 0;
    Block* next = nullptr;
  };
  struct Holder {
    std::string name;
    std::uint64_t used_bytes = 0;
  };

  ~Pool() override;

  bool huge(std::size_t bytes) const { return bytes >= options_.huge_page_bytes_min; }
  base::Result<base::Buffer> take(std::size_t bytes, std::size_t size_class,
                                  std::string_view holder);
  base::Result<Block*> take_from_system(std::size_t wanted, std::size_t size_class,
                                        std::string_view holder);
  bool has_own_limit(std::size_t size_class) const {
    return size_class == kNoClass && options_.arena_limit_bytes > 0;
  }
  std::uint64_t limit(std::size_t size_class) const {
    return has_own_limit(size_class) ? options_.arena_limit_bytes : limit_bytes_;
  }
  bool reserve(std::size_t bytes, std::size_t size_class);
  void unreserve(std::size_t bytes, std::size_t size_class) TROUPE_REQUIRES(mutex_);
  Block* take_cached() TROUPE_REQUIRES(mutex_);
  void free_blocks(Block* blocks);
  void free_cached() TROUPE_REQUIRES(trim_mutex_);
  void count_use(Block* block, std::string_view holder) TROUPE_REQUIRES(mutex_);
  std::size_t find_holder(std::string_view name) TROUPE_REQUIRES(mutex_);
  base::Status out_of_memory(std::size_t wanted, std::size_t size_class, std::string_view holder,
                             std::string_view reason = "");
  void release(Block* block);
  void drop_user();  // the last one deletes the pool

  const base::Device device_;
  const PoolOptions options_;
  const base::Status source_status_;
  const std::unique_ptr<MemorySource> source_;
  const std::uint64_t limit_bytes_;

  std::atomic<std::uint64_t> users_{1};  // the owner until close(), and every block in use
  /// Held while cached blocks go back, so that nobody else finds neither them nor their room.
  base::Mutex trim_mutex_;
  mutable base::Mutex mutex_;
  std::array<Block*, kSizeClasses> cached_ TROUPE_GUARDED_BY(mutex_){};
  std::uint64_t cached_bytes_ TROUPE_GUARDED_BY(mutex_) = 0;
  bool closed_ TROUPE_GUARDED_BY(mutex_) = false;
  PoolFigures statistics_ TROUPE_GUARDED_BY(mutex_);         // without holders
  std::uint64_t apart_bytes_ TROUPE_GUARDED_BY(mutex_) = 0;  // reserved under arena_limit_bytes
  std::deque<Block> blocks_ TROUPE_GUARDED_BY(mutex_);
  Block* unused_ TROUPE_GUARDED_BY(mutex_) = nullptr;  // block records without memory
  std::deque<Holder> holders_ TROUPE_GUARDED_BY(mutex_);
  std::unordered_map<std::string_view, std::size_t> holder_index_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::storage
