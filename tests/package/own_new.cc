// SPDX-License-Identifier: Apache-2.0
// An allocator of the program's own, as a statically linked one is: no library of Troupe may define
// operator new beside it.
#include <cstddef>
#include <cstdlib>
#include <new>

void* operator new(std::size_t bytes) {
  void* place = std::malloc(bytes == 0 ? 1 : bytes);
  if (place == nullptr) std::abort();
  return place;
}

// The library's own would do, but a sanitizer brings another one.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void operator delete(void* place) noexcept {
  std::free(place);
}

void operator delete(void* place, std::size_t) noexcept {
  std::free(place);
}
