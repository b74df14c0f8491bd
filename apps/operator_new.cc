// SPDX-License-Identifier: Apache-2.0
// The operator new and delete of this project's programs, which C++ lets a program replace: malloc
// and free, but for the memory that CallMemory lends to calls into a library. It belongs to
// programs, never to the libraries: who links those brings an allocator of their own, or has malloc
// as ever.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "base/call_memory.h"

// Sanitizers bring their own.
#if !TROUPE_FOREIGN_NEW

void* operator new(std::size_t bytes) {
  if (void* place = troupe::base::CallMemory::take(bytes)) return place;
  while (true) {
    if (void* place = std::malloc(std::max<std::size_t>(bytes, 1))) return place;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* place) noexcept {
  if (!troupe::base::CallMemory::give_back(place)) std::free(place);
}

void operator delete(void* place, std::size_t) noexcept {
  operator delete(place);
}

#endif
