// SPDX-License-Identifier: Apache-2.0
// Element types of tensors: names, sizes, and dispatch from a DType to a C++ type.
// Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/float16.h"
#include "base/status.h"

namespace troupe::base {

/// The element type of a tensor. Numbers are stable: they are written to files and the wire.
enum class DType : std::uint8_t { f32, f64, f16, bf16, i64, i32, i8, u8, boolean };

inline constexpr int kDTypeCount = 9;

/// Bytes of one element.
std::size_t dtype_size(DType dtype);
/// "f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8", "bool".
std::string_view dtype_name(DType dtype);
/// MXNet's name: "float32", "int64", ...
std::string_view mxnet_dtype_name(DType dtype);
/// MXNet's number, as `__dtype__` of its files has it.
int mxnet_dtype_number(DType dtype);
/// Reads dtype_name's form and MXNet's name.
Result<DType> parse_dtype(std::string_view text);
/// True for f32, f64, f16 and bf16.
bool is_floating(DType dtype);
/// True for f16 and bf16.
inline bool is_16_bit(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
/// The DType of a C++ element type.
template <typename T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

}  // namespace troupe::base
