// SPDX-License-Identifier: Apache-2.0
// A loop for each pair of dtypes, and instructions for those of 16 bits and f32 where the processor
// has them, with the same bits.
#include "base/cast_values.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define TROUPE_CAST_INSTRUCTIONS 1
#define TROUPE_CAST_TARGET __attribute__((target("avx2,f16c")))
#endif

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

/// A double that becomes the same number of 16 bits as `x`, which may have more bits than a double:
/// it lies between the same two of them, or is `x`.
double rounds_alike(std::int64_t x) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53, kLow = 0xffffffff, kSome = 0x80000000;
  if (-kExact < x && x < kExact) return static_cast<double>(x);
  return static_cast<double>((x & ~kLow) + ((x & kLow) != 0 ? kSome : 0));
}

template <typename To, typename From>
To cast_value(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIs16Bit<From>) {
    return cast_value<To>(static_cast<float>(x));
  } else if constexpr (kIs16Bit<To> && std::is_same_v<From, float>) {
    return To(x);
  } else if constexpr (kIs16Bit<To> && std::is_same_v<From, std::int64_t>) {
    return To(rounds_alike(x));
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

template <typename To, typename From>
void cast_each(const From* x, To* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = cast_value<To>(x[i]);
}

#ifdef TROUPE_CAST_INSTRUCTIONS

constexpr std::int64_t kLanes = 8;

bool has_instructions() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kF16c = 1U << 29;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kF16c) != 0 &&
           __builtin_cpu_supports("avx2") != 0;
  }();
  return has;
}

TROUPE_CAST_TARGET void cast_fast(const float* x, F16* out, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  cast_each(x + i, out + i, count - i);
}

/// The instruction makes signalling NaN quiet, which is left to the loop.
TROUPE_CAST_TARGET void cast_fast(const F16* x, float* out, std::int64_t count) {
  const __m128i exponent = _mm_set1_epi16(0x7c00), quiet = _mm_set1_epi16(0x7e00),
                magnitude = _mm_set1_epi16(0x7fff);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    const __m128i size = _mm_and_si128(halves, magnitude);
    const __m128i signalling =
        _mm_and_si128(_mm_cmpgt_epi16(size, exponent), _mm_cmpgt_epi16(quiet, size));
    if (_mm_testz_si128(signalling, signalling) == 0) {
      cast_each(x + i, out + i, kLanes);
      continue;
    }
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  cast_each(x + i, out + i, count - i);
}

/// BF16::round of eight numbers, in the low halves of their words.
TROUPE_CAST_TARGET __m256i rounded(const float* x) {
  constexpr int kBelow = 16;
  const __m256 values = _mm256_loadu_ps(x);
  const __m256i bits = _mm256_castps_si256(values), high = _mm256_srli_epi32(bits, kBelow);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i near = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(near, kBelow), quiet, nan);
}

TROUPE_CAST_TARGET void cast_fast(const float* x, BF16* out, std::int64_t count) {
  constexpr int kInOrder = 0xd8;  // packing goes by halves of a register
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const __m256i packed = _mm256_packus_epi32(rounded(x + i), rounded(x + i + kLanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_permute4x64_epi64(packed, kInOrder));
  }
  cast_each(x + i, out + i, count - i);
}

TROUPE_CAST_TARGET void cast_fast(const BF16* x, float* out, std::int64_t count) {
  constexpr int kBelow = 16;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), kBelow);
    _mm256_storeu_ps(out + i, _mm256_castsi256_ps(bits));
  }
  cast_each(x + i, out + i, count - i);
}

template <typename To, typename From>
constexpr bool kHasInstructions = (kIs16Bit<To> && std::is_same_v<From, float>) ||
                                  (kIs16Bit<From> && std::is_same_v<To, float>);

#endif

}  // namespace

void cast_values(DType from, const void* source, DType to, void* target, std::int64_t count) {
  with_type(from, [&](auto from_zero) {
    with_type(to, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* x = static_cast<const From*>(source);
      To* out = static_cast<To*>(target);
#ifdef TROUPE_CAST_INSTRUCTIONS
      if constexpr (kHasInstructions<To, From>) {
        if (has_instructions()) return cast_fast(x, out, count);
      }
#endif
      cast_each(x, out, count);
    });
  });
}

}  // namespace troupe::base
