// SPDX-License-Identifier: Apache-2.0
// Descriptor: a file descriptor that is closed with its owner. One thread at a time.
#pragma once

#include <unistd.h>

#include <utility>

namespace troupe::base {

/// See the top of the file. A negative number is none, as open() gives it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  /// Its number, which the caller closes from now on.
  int release() { return std::exchange(number_, -1); }
  /// Closes it, and owns `number` from now on.
  void reset(int number = -1) {
    if (number_ >= 0) ::close(number_);
    number_ = number;
  }

 private:
  int number_;
};

}  // namespace troupe::base
