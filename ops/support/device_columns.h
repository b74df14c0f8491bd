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
///   keep<1>(channel)  what belongs to the channels of the pack that begins with this one
///   pack(kept, at)    called once for each pack, which begins with element `at`
/// both of them TROUPE_HOST_DEVICE and const.
template <typename T, typename F>
struct ColumnWalk {
  static constexpr std::size_t kSharedBytes = 1;  // none is used
  static constexpr int kSize = DevicePack<T>::kSize;
  static constexpr int kPositionsEach = 16;  ///< of a thread, so that keep() is seldom called

  std::int64_t positions, channels;
  int places;  ///< packs of one position that a block's threads take; a power of two
  F f;

  TROUPE_HOST_DEVICE std::int64_t groups() const {
    return (channels / kSize + places - 1) / places;
  }
  TROUPE_HOST_DEVICE int lanes() const { return kBlockThreads / places; }
  std::int64_t units() const {
    const std::int64_t walk = lanes() * kPositionsEach;
    return (positions + walk - 1) / walk * groups();
  }

  TROUPE_HOST_DEVICE void walk(std::int64_t unit, int thread) const {
    const std::int64_t channel = (unit % groups() * places + thread % places) * kSize;
    if (channel >= channels) return;
    std::int64_t position = unit / groups() * lanes() * kPositionsEach + thread / places;
    if (position >= positions) return;
    const auto kept = f.template keep<1>(channel);
    for (int i = 0; i < kPositionsEach && position < positions; ++i, position += lanes()) {
      f.pack(kept, position * channels + channel);
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

/// f.pack() for all of (positions, channels), in any order. Whole packs of channels; packs of T may
/// lie wherever f reads and writes.
template <typename T, typename F>
base::Status for_each_column(const KernelContext& context, std::int64_t positions,
                             std::int64_t channels, const F& f) {
  constexpr std::int64_t kSize = DevicePack<T>::kSize;
  TROUPE_CHECK(channels % kSize == 0, "channels in whole packs");
  constexpr std::uint64_t kPlacesMost = 8;  // 128 bytes, a line of the cache
  const auto packs = static_cast<std::uint64_t>(std::max<std::int64_t>(channels / kSize, 1));
  const auto places = static_cast<int>(std::min(kPlacesMost, std::bit_ceil(packs)));
  const ColumnWalk<T, F> walk{positions, channels, places, f};
  return for_each_unit(context, walk.units(), walk);
}

}  // namespace troupe::ops
