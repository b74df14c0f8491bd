// SPDX-License-Identifier: Apache-2.0
// Arena: the planned memory that several executors of one module take turns in, sized by the
// largest. A pass of an executor holds the arena's variable, and growing the arena writes it. Used
// by the thread that owns the executors.
#pragma once

#include <cstddef>
#include <memory>

#include "ndarray/runtime.h"

namespace troupe::symbol {

/// One block of device memory with a user at a time.
class Arena {
 public:
  /// The bytes and their tag. Operations read the variable, or a program holds it, while they use
  /// the bytes; a holder lets go in an operation that writes it.
  struct Memory {
    base::Buffer buffer;
    engine::Variable variable;
  };

  /// Makes an empty arena.
  Arena(ndarray::Runtime& runtime, base::Device device);
  /// Lets go of the memory in an operation that writes the variable; at once when the engine has
  /// ended.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Grows to at least `bytes`; content is lost, and so is the claim of its user. Waits for the
  /// work on a smaller block and lets go of it first, so that it never holds two. When the memory
  /// is not there, the error says so and the arena has the size that it had, if that can be had
  /// again.
  base::Status reserve(std::size_t bytes);
  /// Makes `user` the one whose operations may follow. They hold the arena, or read its variable.
  void claim(const void* user) { user_ = user; }
  /// True while nobody else claimed or grew the arena since claim(user).
  bool claimed_by(const void* user) const { return user_ == user; }

  std::size_t bytes() const { return bytes_; }
  base::Device device() const { return device_; }

  const std::shared_ptr<Memory>& memory() const { return memory_; }

 private:
  base::Status allocate(std::size_t bytes);
  void put(base::Buffer buffer);

  ndarray::Runtime runtime_;
  base::Device device_;
  std::shared_ptr<Memory> memory_;
  std::size_t bytes_ = 0;
  const void* user_ = nullptr;
};

}  // namespace troupe::symbol
