// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic, merging and text.
#include "base/shape.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace troupe::base {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kRankMax) {
    constexpr std::size_t kNamedMax = 1'000'000'000;  // the number of axes is only for the error
    rank_ = -static_cast<int>(std::min(dims.size(), kNamedMax));
    return;
  }
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

Shape Shape::unknown() {
  Shape shape;
  shape.rank_ = kUnknownRank;
  return shape;
}

bool Shape::complete() const {
  return rank_known() &&
         std::all_of(dims_.begin(), dims_.begin() + rank_, [](auto d) { return d >= 0; });
}

int Shape::rank() const {
  TROUPE_CHECK(rank_known(), "rank() of a shape of unknown rank");
  return rank_;
}

std::size_t Shape::checked(int axis) const {
  TROUPE_CHECK(axis >= 0 && axis < rank_, "axis out of range for shape");
  return static_cast<std::size_t>(axis);
}

std::int64_t Shape::elements() const {
  return elements(0, rank());
}

std::int64_t Shape::elements(int begin, int end) const {
  std::int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) {
    TROUPE_CHECK((*this)[axis] >= 0, "elements() of an incomplete shape");
    TROUPE_CHECK(!__builtin_mul_overflow(product, (*this)[axis], &product),
                 "more elements than can be counted");
  }
  return product;
}

void Shape::push_back(std::int64_t extent) {
  if (too_long()) {
    --rank_;
  } else if (rank() == kRankMax) {
    rank_ = -(kRankMax + 1);
  } else {
    dims_[static_cast<std::size_t>(rank_++)] = extent;
  }
}

std::string Shape::to_string() const {
  if (too_long()) return fmt::format("({} axes)", -rank_);
  if (!rank_known()) return "(...)";
  std::string text = "(";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += (*this)[axis] < 0 ? "?" : std::to_string((*this)[axis]);
  }
  if (rank_ == 1) text += ",";
  return text + ")";
}

bool operator==(const Shape& a, const Shape& b) {
  return a.rank_ == b.rank_ &&
         std::equal(a.dims_.begin(), a.dims_.begin() + std::max(a.rank_, 0), b.dims_.begin());
}

Status check_shape(const Shape& shape) {
  if (shape.too_long()) {
    return error(Errc::invalid_argument, "the shape {} has more than {} axes", shape.to_string(),
                 kRankMax);
  }
  std::int64_t elements = 1;
  for (int axis = 0; shape.rank_known() && axis < shape.rank(); ++axis) {
    const std::int64_t extent = std::max<std::int64_t>(shape[axis], 1);
    if (extent > kElementsMax / elements) {
      return error(Errc::invalid_argument, "the shape {} has more than 2^40 elements",
                   shape.to_string());
    }
    elements *= extent;
  }
  return {};
}

Result<Shape> merge_shapes(const Shape& a, const Shape& b) {
  for (const Shape* shape : {&a, &b}) {
    if (shape->too_long()) return check_shape(*shape);
  }
  if (!a.rank_known()) return b;
  if (!b.rank_known()) return a;
  auto conflict = [&] {
    return error(Errc::invalid_argument, "shapes {} and {} contradict each other", a.to_string(),
                 b.to_string());
  };
  if (a.rank() != b.rank()) return conflict();
  Shape merged = a;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a[axis] < 0) {
      merged.set(axis, b[axis]);
    } else if (b[axis] >= 0 && a[axis] != b[axis]) {
      return conflict();
    }
  }
  return merged;
}

Result<Shape> parse_shape(std::string_view text) {
  auto bad = [&] {
    return error(Errc::invalid_argument, "'{}' is not a shape like 3,24,24",
                 shortened(text, kQuotedBytesMax));
  };
  std::string_view rest = text;
  auto trim = [&] {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    while (!rest.empty() && rest.back() == ' ') rest.remove_suffix(1);
  };
  trim();
  if (rest.size() >= 2 && ((rest.front() == '(' && rest.back() == ')') ||
                           (rest.front() == '[' && rest.back() == ']'))) {
    rest = rest.substr(1, rest.size() - 2);
    trim();
  }
  Shape shape;
  while (!rest.empty()) {
    std::int64_t extent = kUnknownDim;
    if (rest.front() == '?') {
      rest.remove_prefix(1);
    } else {
      auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
      if (code != std::errc() || extent < kUnknownDim) return bad();
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    }
    shape.push_back(extent);
    trim();
    if (rest.empty()) break;
    if (rest.front() != ',') return bad();
    rest.remove_prefix(1);
    trim();
  }
  TROUPE_TRY(check_shape(shape));
  return shape;
}

}  // namespace troupe::base
