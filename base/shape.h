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
/// Most elements of a tensor: more than any machine holds, and far from what overflows.
inline constexpr std::int64_t kElementsMax = std::int64_t{1} << 40;
/// An extent that is not known yet (shape inference only).
inline constexpr std::int64_t kUnknownDim = -1;

/// Extents of a tensor, outermost first. Rank 0 is a scalar. During shape inference the rank
/// or single extents may be unknown; kernels and buffers only ever see complete shapes. A shape of
/// more than kRankMax axes is *too long*: it keeps their number alone and is good for an error
/// (check_shape), nothing else.
class Shape {
 public:
  /// A scalar: rank 0, one element.
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);
  /// The shape of which not even the rank is known.
  static Shape unknown();

  /// False also for a shape that is too long.
  bool rank_known() const { return rank_ >= 0; }
  bool too_long() const { return rank_ < kUnknownRank; }
  /// True when rank and all extents are known.
  bool complete() const;
  /// Number of dimensions; CHECKs that it is known.
  int rank() const;
  std::int64_t operator[](int axis) const { return dims_[checked(axis)]; }
  void set(int axis, std::int64_t extent) { dims_[checked(axis)] = extent; }
  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank())};
  }
  /// Product of the extents (1 for a scalar, 0 where an extent is 0); CHECKs completeness and that
  /// the product can be counted. check_shape() comes first where a shape is from outside.
  std::int64_t elements() const;
  /// Product of the extents of axes [begin, end).
  std::int64_t elements(int begin, int end) const;
  void push_back(std::int64_t extent);

  /// "(32, 3, ?, ?)", "()" for a scalar, "(...)" when the rank is unknown, "(9 axes)" when there
  /// are too many.
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  static constexpr int kUnknownRank = -1;

  std::size_t checked(int axis) const;

  int rank_ = 0;  // kUnknownRank; less: minus the number of axes of a shape that is too long
  std::array<std::int64_t, kRankMax> dims_{};
};

/// What every shape from outside must pass before anything is computed with it: at most kRankMax
/// axes, and at most kElementsMax elements as far as the extents are known (0 counts as 1 here, so
/// that the product of any of them can be counted). invalid_argument naming the shape.
Status check_shape(const Shape& shape);
/// Joins what two partial shapes know; an error when they contradict each other or one is too long.
Result<Shape> merge_shapes(const Shape& a, const Shape& b);
/// Reads "(1, 2)", "[1,2]", "1,2", "3" or "()" (MXNet's attribute form); `?` and -1 are unknown
/// extents.
Result<Shape> parse_shape(std::string_view text);

}  // namespace troupe::base
