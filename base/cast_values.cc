// SPDX-License-Identifier: Apache-2.0
// A loop for each pair of dtypes.
#include "base/cast_values.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/check.h"

namespace troupe::base {
namespace {

/// f(T{}) for the type of a dtype.
template <typename F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(F16{});
    case DType::bf16:
      return f(BF16{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
  TROUPE_CHECK(false, "a cast between dtypes that do not exist");
}

template <typename T>
constexpr bool kIs16Bit = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

template <typename To, typename From>
To cast_value(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIs16Bit<From>) {
    return cast_value<To>(static_cast<float>(x));
  } else if constexpr (kIs16Bit<To> && std::is_same_v<From, float>) {
    return To(x);
  } else if constexpr (kIs16Bit<To>) {
    return To(static_cast<double>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(x)) return To{0};
    const double value = static_cast<double>(x);
    if (value <= static_cast<double>(Limits::min())) return Limits::min();
    if (value >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace

void cast_values(DType from, const void* source, DType to, void* target, std::int64_t count) {
  with_type(from, [&](auto from_zero) {
    with_type(to, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* x = static_cast<const From*>(source);
      To* out = static_cast<To*>(target);
      for (std::int64_t i = 0; i < count; ++i) out[i] = cast_value<To>(x[i]);
    });
  });
}

}  // namespace troupe::base
