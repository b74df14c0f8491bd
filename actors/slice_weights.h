// SPDX-License-Identifier: Apache-2.0
// SliceWeights: the weights of one slice as a device server keeps them: which version a rank may
// have for which step in each mode, and what has to be asked of the slice's owner for that. Pure;
// one owner, one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/device_gather.h"
#include "base/status.h"
#include "schemas/messages.h"
#include "store/slice_rules.h"

namespace troupe::actors {

/// Weights for a rank's step.
struct Handout {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::uint64_t version = 0;
  base::Buffer weight;
  std::vector<std::uint64_t> next;  ///< per rank of the job; empty: everything below `step`
};

/// Which weights a rank gets for its step t (device tier, cluster tier):
/// - sequential, sequential: version t.
/// - sequential, eventual: for all ranks of the machine the same, the reply to the machine's step
///   t - 1.
/// - eventual device: the newest held, once it contains the rank's own steps below t and is within
///   both tiers' bounds.
/// - a barrier step, in every mode: the barrier's version.
///
/// Up to three versions are held:
/// - the newest.
/// - in lock step the one before it: a rank without samples in step t pushes its nothing without
///   having got the weights of t, so those of t + 1 may come while its pull for t is on its way.
/// - eventual device: the last barrier's, until all ranks have contributed past it, because newer
///   versions contain more than a barrier's weights may (decision 0008, Barriers).
class SliceWeights {
 public:
  /// `rules` must outlive it.
  SliceWeights(const store::SliceRules& rules, std::uint32_t machine, schemas::SliceId slice);

  /// A rank wants weights for its step. A request for an earlier step than its last is an echo.
  void want(std::uint32_t rank, std::uint64_t step);
  /// True when the rank has been given weights for this step.
  bool handed(std::uint32_t rank, std::uint64_t step) const;
  /// The lowest step that no rank has wanted weights for, nor for a later one.
  std::uint64_t wanted_below() const;
  /// Every rank has contributed past steps below this one: an older barrier's weights may go.
  void passed(std::uint64_t step);

  /// What to ask of the owner now, sorted; asking again for the same is harmless.
  std::vector<schemas::WeightPull> desired(const DeviceGather& gather) const;
  /// A version has come from the owner. An error when it does not say what it contains.
  base::Status take(const schemas::WeightReply& reply, const base::Buffer& weight);
  /// The next weights to hand to a rank.
  std::optional<Handout> next_handout();

  /// The newest version held, if any, and whether all that the machine has sent is in it.
  OwnerView owner(const DeviceGather& gather) const;
  /// True when the rank waits for weights.
  bool waits(std::uint32_t rank) const { return waiting_.count(rank) != 0; }
  /// Ranks that wait for weights, with their steps.
  const std::map<std::uint32_t, std::uint64_t>& waiting() const { return waiting_; }

 private:
  struct Held {
    std::uint64_t version = 0;
    std::uint64_t step = 0;  // the pull's; the barrier's own
    base::Buffer weight;
    std::vector<std::uint64_t> next;  // per rank of the job; empty: both tiers are sequential
  };

  bool lock_step() const { return rules_->device_sequential(); }
  const Held* held_for(std::uint32_t rank, std::uint64_t step) const;
  const Held* fresh_enough(std::uint32_t rank, std::uint64_t step) const;
  std::uint64_t needed_of_all(std::uint64_t step) const;
  std::uint64_t needed_of_own(std::uint64_t step) const;
  std::uint64_t lowest_own(const Held& held) const;
  bool contained(const Held& held, const DeviceGather& gather) const;
  std::optional<schemas::WeightPull> pull_for_step(std::uint64_t step) const;
  std::optional<schemas::WeightPull> pull_newer(const DeviceGather& gather) const;
  void keep_step(Held held);
  void keep_barrier(const Held& held);
  void keep_newest(Held held);
  void check_handout(std::uint32_t rank, std::uint64_t step, const Held& held) const;

  const store::SliceRules* rules_;
  std::vector<std::uint32_t> ranks_;
  schemas::SliceId slice_;
  std::map<std::uint32_t, std::uint64_t> waiting_;  // rank -> step
  std::map<std::uint32_t, std::uint64_t> handed_;   // rank -> last step served
  std::optional<Held> newest_;
  std::optional<Held> previous_;  // lock step
  std::optional<Held> barrier_;   // eventual device
  bool asked_ = false;            // eventual device: a rank wanted weights since the newest came
};

}  // namespace troupe::actors
