// SPDX-License-Identifier: Apache-2.0
// Random numbers on GPUs: the words of base/random.h, and normal values from them by its formula.
// Pure functions; any thread, and devices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/random.h"
#include "ops/support/device_kernel.h"

namespace troupe::ops {

/// Four random words.
struct PhiloxWords {
  std::uint32_t word[4];
};

/// The stream of a running call: base::philox() of the node's key, the step and draw 0.
struct DevicePhilox {
  std::uint64_t key = 0, step = 0;

  /// The words of block `block` (Philox 4x32-10).
  TROUPE_HOST_DEVICE PhiloxWords operator()(std::uint64_t block) const {
    constexpr int kRounds = 10;
    constexpr std::uint64_t kMultiplier[2] = {0xD2511F53, 0xCD9E8D57};
    constexpr std::uint32_t kKeyStep[2] = {0x9E3779B9, 0xBB67AE85};
    const std::uint64_t high = step << 16;
    PhiloxWords x = {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                      static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
    auto first = static_cast<std::uint32_t>(key), second = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t a = kMultiplier[0] * x.word[0], b = kMultiplier[1] * x.word[2];
      x = {{static_cast<std::uint32_t>(b >> 32) ^ x.word[1] ^ first, static_cast<std::uint32_t>(b),
            static_cast<std::uint32_t>(a >> 32) ^ x.word[3] ^ second,
            static_cast<std::uint32_t>(a)}};
      first += kKeyStep[0];
      second += kKeyStep[1];
    }
    return x;
  }
};

/// Uniform in [0, 1) from one word: base::uniform_f32() and base::uniform_f64().
template <typename W>
TROUPE_HOST_DEVICE W unit_number(std::uint32_t word) {
  if constexpr (std::is_same_v<W, float>) {
    return static_cast<float>(word >> 8) * 0x1.0p-24F;
  } else {
    return static_cast<double>(word) * 0x1.0p-32;
  }
}

/// CHECKs the step's range, as base::philox() does.
inline DevicePhilox device_philox(const KernelContext& context) {
  const auto step = static_cast<std::uint64_t>(context.random_step);
  TROUPE_CHECK(step < (std::uint64_t{1} << 48), "random counter out of range");
  return {context.random_key.value, step};
}

/// out[e] = value(words of e's block, e % 4) for each block of four elements.
template <typename T, typename Value>
struct DrawAt {
  DevicePhilox philox;
  std::int64_t elements;
  T* out;
  Value value;

  TROUPE_HOST_DEVICE void operator()(std::int64_t block) const {
    const PhiloxWords words = philox(static_cast<std::uint64_t>(block));
    for (int k = 0; k < 4 && block * 4 + k < elements; ++k) {
      out[block * 4 + k] = T(value(words, k));
    }
  }
};

/// A kernel for GPUs that draws each element by make(params, T{}), which `make` gives for a
/// run: value(words, k) is Wide<T>.
template <typename Make>
KernelDef draw_device_kernel(Make make) {
  return real_device_kernel([make](const OpCall& call, const KernelContext& context, auto zero) {
    using T = decltype(zero);
    const auto value = make(call.params, zero);
    const std::int64_t elements = context.outputs[0].elements();
    return for_each_index(context, (elements + 3) / 4,
                          DrawAt<T, std::remove_const_t<decltype(value)>>{
                              device_philox(context), elements, context.outputs[0].as<T>(), value});
  });
}

}  // namespace troupe::ops
