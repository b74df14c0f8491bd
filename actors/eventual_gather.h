// SPDX-License-Identifier: Apache-2.0
// EventualGather: gathering without lock step: gradients are added in order of arrival to what has
// not been sent. Pure; one owner, one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "actors/device_gather.h"

namespace troupe::actors {

/// Device tier eventual. Under cluster sequential one push goes out per version held, or an
/// abstention when nothing is there and all ranks wait; under cluster eventual one whenever the
/// last has been acknowledged.
class EventualGather final : public DeviceGather {
 public:
  /// `rules` must outlive it.
  EventualGather(const store::SliceRules& rules, std::uint32_t machine);
  void push(RankPush push) override;
  std::optional<schemas::PushResult> asked(std::uint32_t rank, std::uint64_t step) const override;
  std::optional<GatherWork> next_work() override;
  void done(std::uint64_t id, base::Buffer result) override;
  std::optional<store::SlicePush> next_push(const OwnerView& owner) override;
  void acknowledged(std::uint64_t number) override;
  std::uint64_t arrived(std::uint32_t rank) const override { return arrived_.at(rank); }
  std::uint64_t begun() const override;
  std::uint64_t unsent(std::uint32_t rank) const override { return unsent_.at(rank); }
  std::optional<std::uint64_t> spoken_version() const override {
    return std::max(pushed_version_, abstained_version_);
  }
  std::uint64_t number() const override { return number_; }
  std::vector<std::uint32_t> missing() const override;

 private:
  bool borrowed(std::uint32_t rank, std::uint64_t step) const;
  void take(const RankPush& push);
  bool may_push(const OwnerView& owner) const;
  std::optional<store::SlicePush> abstain(const OwnerView& owner);

  const store::SliceRules* rules_;
  std::uint32_t machine_;
  std::map<std::uint32_t, std::uint64_t> arrived_;  // per rank: lowest step not come
  std::map<std::uint32_t, std::uint64_t> unsent_;   // per rank: lowest step not sent
  std::deque<RankPush> arrivals_;  // at most one per rank: a gradient is free again when taken
  std::optional<RankPush> adding_;
  store::SlicePush sum_;                      // not yet sent
  std::optional<std::uint64_t> outstanding_;  // cluster eventual: the push not yet acknowledged
  std::optional<std::uint64_t> pushed_version_;
  std::optional<std::uint64_t> abstained_version_;
  std::uint64_t number_ = 0;
  std::uint64_t next_id_ = 1;
};

}  // namespace troupe::actors
