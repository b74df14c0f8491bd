// SPDX-License-Identifier: Apache-2.0
// DeviceSlice: one slice at a device server: gradients up, weights down, and the barriers between
// them. Pure; one owner, one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/device_gather.h"
#include "actors/slice_weights.h"

namespace troupe::actors {

/// Joins a slice's gather and its weights by the rules that need both: barriers (a gradient of a
/// step behind one is held back until the barrier is complete, decision 0008), echoes, and what the
/// gather may know of the owner. So gradients, wishes and replies come in here; work, answers,
/// acknowledgements and handouts concern one of the two alone and are reached through it.
///
/// A cut out of turn may become a barrier only as long as nothing of its step or later has been
/// summed, asked for or handed out. So its coordinator has all slices hold their ranks first.
///
/// Usage: after every call that changes it, run gather().next_work(), gather().take_answers(),
/// next_push(), desired() and weights().next_handout() until nothing more comes.
class DeviceSlice {
 public:
  /// `rules` must outlive it.
  DeviceSlice(const store::SliceRules& rules, std::uint32_t machine, schemas::SliceId id);

  const schemas::SliceId& id() const { return id_; }
  /// Not for push() and next_push().
  DeviceGather& gather() { return *gather_; }
  /// Not for want(), desired(), take() and waits().
  SliceWeights& weights() { return weights_; }

  /// A rank's gradient. Where a tier is eventual one of a step behind a barrier is kept untouched
  /// until the barrier is complete, so that nothing later gets in front of it.
  void push(RankPush push);
  /// What to say to a rank that asks about its gradient of a step; nothing when the answer to the
  /// gradient itself will follow.
  std::optional<schemas::PushResult> asked(std::uint32_t rank, std::uint64_t step) const;
  /// The next push to the owner. `blocked`: all ranks of the machine wait for weights of some
  /// slice.
  std::optional<store::SlicePush> next_push(bool blocked);

  /// A rank wants weights for its step.
  void want(std::uint32_t rank, std::uint64_t step);
  /// True when the rank waits for weights.
  bool waits(std::uint32_t rank) const;
  /// What to ask of the owner now, sorted; asking again for the same is harmless.
  std::vector<schemas::WeightPull> desired() const;
  /// An answer of the owner; an error when it refused what is still needed.
  base::Status replied(const schemas::WeightReply& reply, const base::Buffer& weight);

  /// The lowest step that no rank has begun here, nor a later one.
  std::uint64_t begun() const;
  /// From now on gradients and wishes of steps from `step` on wait untouched, those that waited for
  /// an earlier hold no longer. store::kNoStep: nothing waits.
  void hold(std::uint64_t step);

  /// Who is waited for, for people: "slice (0, 1) waits for gradients of ranks 2, 3".
  std::string waits_for() const;

 private:
  bool beyond_barrier(std::uint64_t step) const;
  void note_complete(const std::vector<std::uint64_t>& next);

  const store::SliceRules* rules_;
  schemas::SliceId id_;
  std::vector<std::uint32_t> ranks_;
  std::unique_ptr<DeviceGather> gather_;
  SliceWeights weights_;
  std::map<std::uint32_t, RankPush> held_back_;  // by rank: beyond a hold, or a barrier that is
                                                 // not complete
  std::map<std::uint32_t, std::uint64_t> held_wishes_;  // by rank: a step beyond the hold
  std::uint64_t hold_ = store::kNoStep;
  std::optional<std::uint64_t> barrier_complete_;  // the last one known to be
  std::optional<std::uint64_t> barrier_wanted_;    // the one that the last gradient waits for
};

}  // namespace troupe::actors
