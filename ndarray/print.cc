// SPDX-License-Identifier: Apache-2.0
// Printing: numbers in nested brackets; axes longer than kEdge * 2 show their ends.
#include <fmt/core.h>

#include <cstring>

#include "ndarray/ndarray.h"

namespace troupe::ndarray {

namespace {

constexpr std::int64_t kEdge = 3;

template <typename T>
T element(const std::vector<std::byte>& bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

std::string number(const std::vector<std::byte>& bytes, base::DType dtype, std::int64_t index) {
  switch (dtype) {
    case base::DType::f32:
      return fmt::format("{:.6g}", element<float>(bytes, index));
    case base::DType::f64:
      return fmt::format("{:.9g}", element<double>(bytes, index));
    case base::DType::i64:
      return fmt::format("{}", element<std::int64_t>(bytes, index));
    case base::DType::i32:
      return fmt::format("{}", element<std::int32_t>(bytes, index));
    case base::DType::i8:
      return fmt::format("{}", static_cast<int>(element<std::int8_t>(bytes, index)));
    case base::DType::u8:
      return fmt::format("{}", static_cast<int>(element<std::uint8_t>(bytes, index)));
    case base::DType::boolean:
      return element<std::uint8_t>(bytes, index) != 0 ? "True" : "False";
    case base::DType::f16:
      return fmt::format("{:.4g}", static_cast<float>(element<base::F16>(bytes, index)));
    case base::DType::bf16:
      return fmt::format("{:.4g}", static_cast<float>(element<base::BF16>(bytes, index)));
  }
  return "?";
}

struct Printer {
  const std::vector<std::byte>& bytes;
  const base::Shape& shape;
  base::DType dtype;
  std::string text = {};

  void print(int axis, std::int64_t first) {
    if (axis == shape.rank()) {
      text += number(bytes, dtype, first);
      return;
    }
    const std::int64_t extent = shape[axis];
    const std::int64_t stride = shape.elements(axis + 1, shape.rank());
    const bool last = axis == shape.rank() - 1;
    text += "[";
    for (std::int64_t i = 0; i < extent; ++i) {
      if (i > 0) text += last ? ", " : fmt::format(",\n{:{}}", "", axis + 1);
      if (extent > 2 * kEdge && i == kEdge) {
        text += "...";
        i = extent - kEdge - 1;
        continue;
      }
      print(axis + 1, first + i * stride);
    }
    text += "]";
  }
};

}  // namespace

std::string NDArray::to_string() const {
  if (!error_.ok()) return fmt::format("<failed array: {}>", error_.to_string());
  if (!chunk_) return "<no array>";
  std::vector<std::byte> values(bytes());
  const base::Status status = read(values);
  if (!status.ok()) return fmt::format("<failed array: {}>", status.to_string());
  Printer printer{values, shape_, dtype_};
  printer.print(0, 0);
  return fmt::format("{}\n<{} {} on {}>", printer.text, base::dtype_name(dtype_),
                     shape_.to_string(), device_.to_string());
}

}  // namespace troupe::ndarray
