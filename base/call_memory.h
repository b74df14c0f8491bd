// SPDX-License-Identifier: Apache-2.0
// Memory set aside for calls into a library that allocates small objects at every call (oneDNN: the
// table of a primitive's arguments), so that such a call asks no allocator. It works through the
// operator new of the program (apps/operator_new.cc is this project's); in a program whose operator
// new does not ask here it changes nothing. See docs/decisions/0009-call-memory.md. Any thread.
#pragma once

#include <cstddef>

// 1 in a build with sanitizers, which bring their own operator new.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TROUPE_FOREIGN_NEW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define TROUPE_FOREIGN_NEW 1
#endif
#endif
#ifndef TROUPE_FOREIGN_NEW
#define TROUPE_FOREIGN_NEW 0
#endif

namespace troupe::base {

/// While one lives, operator new of its thread takes small pieces from a block set aside. Larger
/// ones, and everything when no block or piece is free, come from malloc as ever. What was taken
/// may be deleted at any later time, by any thread. Does nothing under sanitizers.
class CallMemory {
 public:
  CallMemory();
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  /// One that lives as long as the calling thread: for members of a library's team of threads.
  static void keep_on_this_thread();

  /// For operator new: a piece of the block that the calling thread holds, else null.
  static void* take(std::size_t bytes) noexcept;
  /// For operator delete: takes a piece back; false when `place` lies in no block.
  static bool give_back(void* place) noexcept;

 private:
  [[maybe_unused]] bool holds_ = false;  // false within another one, which serves
};

}  // namespace troupe::base
