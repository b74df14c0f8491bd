// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers in byte strings, without alignment. Pure functions, any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace troupe::data {

static_assert(std::endian::native == std::endian::little, "record files are little-endian");

/// The T at `offset`; CHECKs the bounds.
template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  TROUPE_CHECK(offset <= bytes.size() && sizeof(T) <= bytes.size() - offset,
               "number read behind the end of its bytes");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Adds the bytes of `value` at the end.
template <typename T>
void store(std::vector<std::byte>& bytes, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t size = bytes.size();
  bytes.resize(size + sizeof(T));
  std::memcpy(bytes.data() + size, &value, sizeof(T));
}

}  // namespace troupe::data
