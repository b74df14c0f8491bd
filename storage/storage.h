// SPDX-License-Identifier: Apache-2.0
// Memory of hosts and devices: one recycling pool per device, arenas for planned memory,
// statistics. A Storage is built by the program; buffers that outlive it stay valid. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"

namespace troupe::storage {

/// Limits of one pool.
struct PoolOptions {
  std::uint64_t limit_bytes = 0;  ///< most bytes held from the system; 0: the device's memory
  /// Most bytes of arenas, which then do not count for limit_bytes; 0: they do.
  std::uint64_t arena_limit_bytes = 0;
  std::uint64_t cache_bytes_max = 1u << 30;      ///< free bytes kept for reuse
  std::uint64_t huge_page_bytes_min = 2u << 20;  ///< blocks from this size ask for huge pages
  bool fill_with_nan = false;  ///< debug: fresh and recycled memory holds NaN patterns
};

/// Limits of a GPU's pool: what it has taken it keeps, since giving memory back stops the device.
inline PoolOptions gpu_pool_options(std::uint64_t limit_bytes = 0) {
  return {.limit_bytes = limit_bytes, .cache_bytes_max = UINT64_MAX};
}

/// A pool's state, for metrics and out-of-memory errors. Blocks count in full: up to an eighth more
/// than was asked for.
struct PoolFigures {
  std::uint64_t used_bytes = 0;      ///< in buffers that are alive
  std::uint64_t reserved_bytes = 0;  ///< held from the system, free ones included
  std::uint64_t peak_bytes = 0;      ///< highest used_bytes
  std::uint64_t hits = 0;            ///< allocations served from the cache
  std::uint64_t misses = 0;          ///< allocations served by the system
  std::uint64_t failures = 0;
  std::map<std::string, std::uint64_t> holders;  ///< used bytes per holder text
};

/// The memory of the machine, or what this process's control group may have of it.
std::uint64_t total_host_bytes();
/// Host memory that a program can have now without pushing others out, as the system estimates it;
/// where it says nothing, all of it.
std::uint64_t available_host_bytes();

/// The pools of a process or of one worker.
class Storage {
 public:
  /// `host` holds for the pools of the host, each by itself, `gpu` for each GPU's.
  explicit Storage(const PoolOptions& host = {}, const PoolOptions& gpu = gpu_pool_options());
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// The pool of a device; made on first use. `cpu` and `delayed` have host pools.
  base::BufferPool& pool(base::Device device);
  /// Memory of the host that GPUs copy from and to while the host goes on; made on first use. Its
  /// buffers are the host's like those of pool({}).
  base::BufferPool& pinned_pool();
  /// One block for a plan: like pool(device).allocate, but never cut from or kept in the cache,
  /// on huge pages where it is large, cleared to zero.
  base::Result<base::Buffer> allocate_arena(base::Device device, std::size_t bytes,
                                            std::string_view holder);
  PoolFigures statistics(base::Device device) const;
  /// Of pinned_pool().
  PoolFigures pinned_statistics() const;
  std::vector<base::Device> devices() const;
  /// Gives free memory back to the system.
  void trim();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::storage
