// SPDX-License-Identifier: Apache-2.0
// Counts what a test binary asks allocators for: the C library's functions are wrapped, so that a
// library's calls count too. To be included by one file of a binary. Sanitizers bring their own
// allocator, which is not counted: then nothing is seen. Any thread.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// How clang says that sanitizers are on; g++ has macros.
#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TROUPE_SANITIZED_BY_CLANG 1
#endif
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__) && \
    !defined(TROUPE_SANITIZED_BY_CLANG)
#define TROUPE_COUNTS_ALLOCATIONS 1
#endif

namespace troupe::tests {

/// Calls of allocators by all threads, and the largest request.
struct Allocations {
  std::uint64_t calls = 0;
  std::size_t largest_bytes = 0;
};

inline constinit std::atomic<std::uint64_t> allocation_calls{0};
inline constinit std::atomic<std::size_t> largest_allocation{0};

inline void count_allocation(std::size_t bytes) {
  allocation_calls.fetch_add(1, std::memory_order_relaxed);
  std::size_t seen = largest_allocation.load(std::memory_order_relaxed);
  while (bytes > seen && !largest_allocation.compare_exchange_weak(seen, bytes)) {
  }
}

/// What was asked for since it was made. One at a time.
class CountAllocations {
 public:
  CountAllocations() { largest_allocation.store(0); }
  Allocations so_far() const {
    return {allocation_calls.load() - calls_before_, largest_allocation.load()};
  }

 private:
  std::uint64_t calls_before_ = allocation_calls.load();
};

}  // namespace troupe::tests

#ifdef TROUPE_COUNTS_ALLOCATIONS

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  troupe::tests::count_allocation(size);
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) noexcept {
  troupe::tests::count_allocation(number * size);
  return __libc_calloc(number, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  troupe::tests::count_allocation(size);
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  troupe::tests::count_allocation(size);
  return __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  troupe::tests::count_allocation(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t size) noexcept {
  troupe::tests::count_allocation(size);
  *result = __libc_memalign(alignment, size);
  return *result == nullptr ? ENOMEM : 0;
}
}

#endif
