// SPDX-License-Identifier: Apache-2.0
// Shapes of tensors, complete or partial. Plain values of fixed size; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace troupe::base {

/// Highest rank of a tensor.
inline constexpr int kRankMax = 8;
/// An extent that is not known yet (shape inference only).
inline constexpr std::int64_t kUnknownDim = -1;

/// Extents of a tensor, outermost first. Rank 0 is a scalar. During shape inference the rank
/// or single extents may be unknown; kernels and buffers only ever see complete shapes.
class Shape {
 public:
  /// A scalar: rank 0, one element.
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);
  /// The shape of which not even the rank is known.
  static Shape unknown();

  bool rank_known() const { return rank_ >= 0; }
  /// True when rank and all extents are known.
  bool complete() const;
  /// Number of dimensions; CHECKs that it is known.
  int rank() const;
  std::int64_t operator[](int axis) const { return dims_[checked(axis)]; }
  void set(int axis, std::int64_t extent) { dims_[checked(axis)] = extent; }
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank())};
  }
  /// Product of the extents (1 for a scalar, 0 where an extent is 0); CHECKs completeness.
  std::int64_t elements() const;
  /// Product of the extents of axes [begin, end).
  std::int64_t elements(int begin, int end) const;
  void push_back(std::int64_t extent);

  /// "(32, 3, ?, ?)", "()" for a scalar, "(...)" when the rank is unknown.
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::size_t checked(int axis) const;

  int rank_ = 0;
  std::array<std::int64_t, kRankMax> dims_{};
};

/// Joins what two partial shapes know; an error when they contradict each other.
Result<Shape> merge_shapes(const Shape& a, const Shape& b);
/// Reads "(1, 2)", "[1,2]", "1,2", "3" or "()" (MXNet's attribute form); `?` and -1 are unknown
/// extents.
Result<Shape> parse_shape(std::string_view text);

}  // namespace troupe::base
