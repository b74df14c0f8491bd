// SPDX-License-Identifier: Apache-2.0
// Ranks of a run on late test devices: three streams each, as a rank on a GPU has them, and two of
// each device for sums. They outlive the run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/delayed_stream.h"
#include "train/local_run.h"

namespace troupe::tests {

class LateRanks {
 public:
  /// Rank r computes on device r modulo `devices`.
  explicit LateRanks(std::uint32_t ranks, std::uint32_t devices = 1) {
    for (std::uint32_t device = 0; device < devices; ++device) {
      devices_.push_back({base::DeviceKind::delayed, static_cast<std::int32_t>(device)});
    }
    for (std::uint32_t machine = 0; machine < ranks; ++machine) {  // there are no more
      std::vector<base::Stream*>& own = sums_.emplace_back();
      for (const base::Device device : devices_) {
        for (const int late_us : {40, 60}) own.push_back(make(device, late_us));
      }
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<base::Stream*>& own = by_rank_.emplace_back();
      // Late by different times, so that copies and kernels overtake each other.
      for (const int late_us : {20, 90, 5}) own.push_back(make(devices_[rank % devices], late_us));
    }
  }
  /// `options`, with these ranks' devices.
  train::LocalRunOptions on_device(train::LocalRunOptions options = {}) const {
    options.devices = devices_;
    options.streams = by_rank_;
    options.sum_streams = sums_;
    return options;
  }
  /// Closures that ran on the streams of one kind: 0 kernels, 1 copies to the host, 2 to the
  /// device.
  std::uint64_t ran(std::size_t kind) const {
    std::uint64_t all = 0;
    for (const auto& streams : by_rank_) all += late(streams[kind]).ran();
    return all;
  }
  /// Closures that ran on the sums' streams of one kind: 0 additions, 1 copies to the host.
  std::uint64_t added(std::size_t kind) const {
    std::uint64_t all = 0;
    for (const auto& streams : sums_) {
      for (std::size_t i = kind; i < streams.size(); i += 2) all += late(streams[i]).ran();
    }
    return all;
  }

  /// Graphs of kernels that were launched.
  std::uint64_t launches() const {
    std::uint64_t all = 0;
    for (const auto& streams : by_rank_) all += late(streams.front()).launches();
    return all;
  }

 private:
  static const DelayedStream& late(const base::Stream* stream) {
    return *dynamic_cast<const DelayedStream*>(stream);
  }
  base::Stream* make(base::Device device, int late_us) {
    const DelayedStreamOptions options{.device = device,
                                       .delay = std::chrono::microseconds(late_us)};
    return streams_.emplace_back(std::make_unique<DelayedStream>(options)).get();
  }

  std::vector<std::unique_ptr<DelayedStream>> streams_;
  std::vector<base::Device> devices_;
  std::vector<std::vector<base::Stream*>> by_rank_, sums_;  // sums: by machine
};

}  // namespace troupe::tests
