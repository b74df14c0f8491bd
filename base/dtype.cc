// SPDX-License-Identifier: Apache-2.0
// Names and sizes of element types.
#include "base/dtype.h"

#include <array>

namespace troupe::base {
namespace {

struct Entry {
  std::string_view name;
  std::string_view mxnet_name;
  int mxnet_number;
  std::size_t bytes;
  bool floating;
};

constexpr std::array<Entry, kDTypeCount> kEntries = {{
    {"f32", "float32", 0, 4, true},
    {"f64", "float64", 1, 8, true},
    {"f16", "float16", 2, 2, true},
    {"bf16", "bfloat16", 12, 2, true},
    {"i64", "int64", 6, 8, false},
    {"i32", "int32", 4, 4, false},
    {"i8", "int8", 5, 1, false},
    {"u8", "uint8", 3, 1, false},
    {"bool", "bool", 7, 1, false},
}};

const Entry& entry(DType dtype) {
  return kEntries.at(static_cast<std::size_t>(dtype));
}

}  // namespace

std::size_t dtype_size(DType dtype) {
  return entry(dtype).bytes;
}
std::string_view dtype_name(DType dtype) {
  return entry(dtype).name;
}
std::string_view mxnet_dtype_name(DType dtype) {
  return entry(dtype).mxnet_name;
}
int mxnet_dtype_number(DType dtype) {
  return entry(dtype).mxnet_number;
}
bool is_floating(DType dtype) {
  return entry(dtype).floating;
}

Result<DType> parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    if (text == kEntries[i].name || text == kEntries[i].mxnet_name) return static_cast<DType>(i);
  }
  return error(Errc::invalid_argument,
               "unknown dtype '{}' (known: f32, f64, f16, bf16, i64, i32, i8, u8, bool)", text);
}

}  // namespace troupe::base
