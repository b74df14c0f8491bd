// SPDX-License-Identifier: Apache-2.0
// The shared block behind Buffer handles.
#include "base/buffer.h"

#include <cstdlib>

namespace troupe::base {

struct Buffer::Block {
  explicit Block(std::function<void()> f) : release(std::move(f)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (release) release();
  }
  std::function<void()> release;
};

Buffer::Buffer(std::byte* data, std::size_t bytes, Device device, std::function<void()> release)
    : block_(std::make_shared<Block>(std::move(release))),
      data_(data),
      size_(bytes),
      device_(device) {}

Buffer Buffer::slice(std::size_t offset, std::size_t size) const {
  TROUPE_CHECK(offset <= size_ && size <= size_ - offset, "slice beyond the end of a buffer");
  Buffer window = *this;
  window.data_ += offset;
  window.size_ = size;
  return window;
}

void Buffer::check_host_access(std::size_t element_bytes, std::size_t alignment) const {
  TROUPE_CHECK(device_.host_memory(), "host access to device memory");
  TROUPE_CHECK(size_ % element_bytes == 0, "buffer size is no multiple of the element size");
  TROUPE_CHECK(reinterpret_cast<std::uintptr_t>(data_) % alignment == 0, "buffer is not aligned");
}

Buffer make_host_buffer(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* data =
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded ? rounded : kAlignment));
  TROUPE_CHECK(data != nullptr, "no memory for a small host buffer");
  return Buffer(data, bytes, Device{}, [data] { std::free(data); });
}

}  // namespace troupe::base
