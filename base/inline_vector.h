// SPDX-License-Identifier: Apache-2.0
// InlineVector: a few values that lie in the object itself, so that copies allocate nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>

#include "base/check.h"

namespace troupe::base {

/// At most `Most` plain values; one more is a CHECK failure. Otherwise as std::vector.
template <typename T, std::size_t Most>
class InlineVector {
 public:
  constexpr InlineVector() = default;
  InlineVector(std::initializer_list<T> values) {  // NOLINT: implicit as std::vector's
    for (const T& value : values) push_back(value);
  }

  static constexpr std::size_t max_size() { return Most; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return values_.data(); }
  const T* end() const { return values_.data() + size_; }
  T* begin() { return values_.data(); }
  T* end() { return values_.data() + size_; }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }
  const T& operator[](std::size_t i) const { return values_[i]; }
  T& operator[](std::size_t i) { return values_[i]; }
  const T& front() const { return values_[0]; }
  const T& back() const { return values_[size_ - 1]; }
  T& back() { return values_[size_ - 1]; }

  void push_back(const T& value) {
    TROUPE_CHECK(size_ < Most, "an inline vector is full");
    values_[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  /// New ones are T().
  void resize(std::size_t size) {
    TROUPE_CHECK(size <= Most, "an inline vector is too small");
    std::fill(values_.begin() + std::min(size, size_), values_.end(), T());
    size_ = size;
  }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, Most> values_{};
  std::size_t size_ = 0;
};

}  // namespace troupe::base
