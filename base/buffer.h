// SPDX-License-Identifier: Apache-2.0
// Buffer: reference-counted bytes on a device, and the pool interface that makes them.
// A Buffer is a handle; copies share the bytes, slices keep the whole alive. The counts are
// atomic; who may touch the bytes is decided by the engine's tags or by message ownership.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/device.h"
#include "base/status.h"

namespace troupe::base {

/// A window [offset, offset + size) into a reference-counted block of bytes on one device.
class Buffer {
 public:
  /// No bytes at all; `data()` is null.
  Buffer() = default;
  /// Takes over `bytes` at `data`; `release` is called once, from whichever thread drops the last
  /// handle.
  Buffer(std::byte* data, std::size_t bytes, Device device, std::function<void()> release);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Device device() const { return device_; }
  explicit operator bool() const { return block_ != nullptr; }
  /// Handles (slices included) that share the block; for statistics and tests.
  long use_count() const { return block_.use_count(); }
  /// True when both are windows of one block.
  bool same_block(const Buffer& other) const { return block_ == other.block_; }

  /// The window [offset, offset + size) of this window; CHECKs the bounds.
  Buffer slice(std::size_t offset, std::size_t size) const;

  /// The bytes as T; CHECKs host memory, size and alignment.
  template <typename T>
  std::span<T> as() const {
    check_host_access(sizeof(T), alignof(T));
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  struct Block;
  void check_host_access(std::size_t element_bytes, std::size_t alignment) const;

  std::shared_ptr<Block> block_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
};

/// Makes buffers. Implementations recycle memory, count it and name the largest holders when none
/// is left.
class BufferPool {
 public:
  virtual ~BufferPool() = default;
  /// At least `bytes` bytes (the handle shows exactly `bytes`), aligned to 64, not cleared.
  /// `holder` (static text) names the user in out-of-memory errors and statistics. Any thread.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view holder) = 0;
  virtual Device device() const = 0;
};

/// Unpooled host memory aligned to 64, for tests and small one-off tables. CHECKs success.
Buffer make_host_buffer(std::size_t bytes);

}  // namespace troupe::base
