// SPDX-License-Identifier: Apache-2.0
// Own kernels for GPUs over elements whose channels are neighbours in memory: a thread keeps what
// belongs to a pack of channels in registers and walks along positions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ops/support/device_blocks.h"

namespace troupe::ops {

/// A block's share of (positions, channels). F is a plain struct with
///   Loaded                  what load() returns
///   keep<1>(channel)        what belongs to the channels of the pack that begins with this one
///   load(at)                what it reads of the pack that begins with element `at`
///   pack(kept, at, loaded)  called once for each pack
/// all of them TROUPE_HOST_DEVICE and const. Packs are loaded before others are written: an output
/// may lie where an input does, element on element.
template <typename T, typename F>
struct ColumnWalk {
  static constexpr std::size_t kSharedBytes = 1;  // none is used
  static constexpr int kSize = DevicePack<T>::kSize;
  static constexpr int kPositionsEach = 16;  ///< of a thread, so that keep() is seldom called
  static constexpr int kAtOnce = 2;          ///< positions whose loads are under way together
  static_assert(kPositionsEach % kAtOnce == 0);

  std::int64_t positions, channels;
  int place_bits;  ///< a block's threads take 2^place_bits packs of one position
  Divider groups;  ///< of as many packs
  F f;

  TROUPE_HOST_DEVICE int lanes() const { return kBlockThreads >> place_bits; }
  std::int64_t units() const {
    const std::int64_t walk = lanes() * kPositionsEach;
    return (positions + walk - 1) / walk * groups.divisor();
  }

  TROUPE_HOST_DEVICE void walk(std::int64_t unit, int thread) const {
    const Divider::Digits at = groups.digits(unit);
    const int place = thread & ((1 << place_bits) - 1);
    const std::int64_t channel = ((at.remainder << place_bits) + place) * kSize;
    if (channel >= channels) return;
    std::int64_t position = at.quotient * lanes() * kPositionsEach + (thread >> place_bits);
    if (position >= positions) return;
    const auto kept = f.template keep<1>(channel);
    for (int i = 0; i < kPositionsEach && position < positions; i += kAtOnce) {
      typename F::Loaded loaded[kAtOnce];
      TROUPE_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        const std::int64_t own = position + k * lanes();
        if (own < positions) loaded[k] = f.load(own * channels + channel);
      }
      TROUPE_UNROLL
      for (int k = 0; k < kAtOnce; ++k) {
        const std::int64_t own = position + k * lanes();
        if (own < positions) f.pack(kept, own * channels + channel, loaded[k]);
      }
      position += kAtOnce * lanes();
    }
  }

  void on_host(std::int64_t unit) const {
    for (int thread = 0; thread < kBlockThreads; ++thread) walk(unit, thread);
  }
#if defined(__CUDACC__)
  __device__ void on_device(std::int64_t unit, unsigned char*) const {
    walk(unit, static_cast<int>(threadIdx.x));
  }
#endif
};

/// F for all packs of (positions, channels), in any order. Whole packs of channels; packs of T may
/// lie wherever f reads and writes.
template <typename T, typename F>
base::Status for_each_column(const KernelContext& context, std::int64_t positions,
                             std::int64_t channels, const F& f) {
  constexpr std::int64_t kSize = DevicePack<T>::kSize;
  TROUPE_CHECK(channels % kSize == 0, "channels in whole packs");
  constexpr int kPlaceBitsMost = 3;  // 8 packs are 128 bytes, a line of the cache
  const auto packs = static_cast<std::uint64_t>(std::max<std::int64_t>(channels / kSize, 1));
  const int place_bits = std::min<int>(kPlaceBitsMost, std::bit_width(packs - 1));
  const std::int64_t groups =
      (static_cast<std::int64_t>(packs) + (1 << place_bits) - 1) >> place_bits;
  const ColumnWalk<T, F> walk{positions, channels, place_bits, Divider(groups), f};
  return for_each_unit(context, walk.units(), walk);
}

}  // namespace troupe::ops
