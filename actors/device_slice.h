// SPDX-License-Identifier: Apache-2.0
// DeviceSlice: one slice at a device server: gradients up, weights down, and the barrier between
// them. Pure; one owner, one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/device_gather.h"
#include "actors/weight_desk.h"

namespace troupe::actors {

/// Usage: after every call that changes it, run next_work(), take_answers(), next_push(),
/// desired() and next_handout() until nothing more comes.
class DeviceSlice {
 public:
  /// `rules` must outlive it.
  DeviceSlice(const store::SliceRules& rules, std::uint32_t machine, schemas::SliceId id);

  const schemas::SliceId& id() const { return id_; }

  /// A rank's gradient. In eventual modes one of a step behind a barrier is kept untouched until
  /// the barrier is complete, so that nothing later gets in front of it.
  void push(RankPush push);
  std::vector<RankAnswer> take_answers() { return gather_->take_answers(); }
  std::optional<GatherWork> next_work() { return gather_->next_work(); }
  void done(std::uint64_t work, base::Buffer result) { gather_->done(work, std::move(result)); }
  /// `blocked`: all ranks of the machine wait for weights of some slice.
  std::optional<store::SlicePush> next_push(bool blocked);
  void acknowledged(std::uint64_t number) { gather_->acknowledged(number); }

  /// A rank wants weights for its step.
  void want(std::uint32_t rank, std::uint64_t step);
  std::vector<schemas::WeightPull> desired() const { return desk_.desired(*gather_); }
  base::Status replied(const schemas::WeightReply& reply, const base::Buffer& weight);
  std::optional<Handout> next_handout() { return desk_.next_handout(); }
  /// True when the rank waits for weights of this slice.
  bool waits(std::uint32_t rank) const { return desk_.waiting().count(rank) != 0; }

  /// Who is waited for, for people: "slice (0, 1) waits for gradients of ranks 2, 3".
  std::string waits_for() const;

 private:
  bool beyond_barrier(std::uint64_t step) const;

  const store::SliceRules* rules_;
  schemas::SliceId id_;
  std::vector<std::uint32_t> ranks_;
  std::unique_ptr<DeviceGather> gather_;
  WeightDesk desk_;
  std::map<std::uint32_t, RankPush> blocked_;  // by rank: beyond a barrier not yet complete
};

}  // namespace troupe::actors
