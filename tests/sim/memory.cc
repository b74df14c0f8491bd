// SPDX-License-Identifier: Apache-2.0
// Blocks with a birth certificate.
#include "tests/sim/memory.h"

#include <algorithm>

#include "base/check.h"

namespace troupe::sim {

base::Buffer Memory::allocate(std::size_t bytes) {
  // Doubles, so that every element type is aligned.
  auto* numbers = new double[(bytes + sizeof(double) - 1) / sizeof(double)]();
  auto* data = reinterpret_cast<std::byte*>(numbers);
  (*live_)[data];
  peak_ = std::max(peak_, live_->size());
  return {data, bytes, base::Device{}, [live = live_, data, numbers] {
            live->erase(data);
            delete[] numbers;
          }};
}

Origin& Memory::origin(const base::Buffer& buffer) {
  const auto found = live_->find(buffer.data());
  TROUPE_CHECK(found != live_->end(), "a buffer that the simulator never made");
  return found->second;
}

std::uint64_t Memory::checksum(const base::Buffer& buffer) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : buffer.as<std::byte>()) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  return hash | 1;
}

}  // namespace troupe::sim
