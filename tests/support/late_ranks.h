// SPDX-License-Identifier: Apache-2.0
// Ranks of a run on the late test device: three streams each, as a rank on a GPU has them. They
// outlive the run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/delayed_stream.h"
#include "train/local_run.h"

namespace troupe::tests {

class LateRanks {
 public:
  explicit LateRanks(std::uint32_t ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<base::Stream*>& own = by_rank_.emplace_back();
      // Late by different times, so that copies and kernels overtake each other.
      for (const int late_us : {20, 90, 5}) {
        streams_.push_back(std::make_unique<DelayedStream>(
            DelayedStreamOptions{.delay = std::chrono::microseconds(late_us)}));
        own.push_back(streams_.back().get());
      }
    }
  }
  /// `options`, with these ranks' device.
  train::LocalRunOptions on_device(train::LocalRunOptions options = {}) const {
    options.devices = {streams_.front()->device()};
    options.streams = by_rank_;
    return options;
  }
  /// Closures that ran on the streams of one kind: 0 kernels, 1 copies to the host, 2 to the
  /// device.
  std::uint64_t ran(std::size_t kind) const {
    std::uint64_t all = 0;
    for (std::size_t i = kind; i < streams_.size(); i += 3) all += streams_[i]->ran();
    return all;
  }

  /// Graphs of kernels that were launched.
  std::uint64_t launches() const {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < streams_.size(); i += 3) all += streams_[i]->launches();
    return all;
  }

 private:
  std::vector<std::unique_ptr<DelayedStream>> streams_;
  std::vector<std::vector<base::Stream*>> by_rank_;
};

}  // namespace troupe::tests
