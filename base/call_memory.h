// SPDX-License-Identifier: Apache-2.0
// Memory set aside for calls into a library that allocates small objects at every call (oneDNN: the
// table of a primitive's arguments), so that such a call asks no allocator. It works through the
// program's replaced operator new; see docs/decisions/0009-call-memory.md. Any thread.
#pragma once

namespace troupe::base {

/// While one lives, operator new of its thread takes small pieces from a block set aside. Larger
/// ones, and everything when no block or piece is free, come from malloc as ever. What was taken
/// may be deleted at any later time, by any thread. Does nothing under sanitizers, which bring
/// their own operator new.
class CallMemory {
 public:
  CallMemory();
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  /// One that lives as long as the calling thread: for members of a library's team of threads.
  static void keep_on_this_thread();

 private:
  bool holds_ = false;  // false within another one, which serves
};

}  // namespace troupe::base
