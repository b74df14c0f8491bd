// SPDX-License-Identifier: Apache-2.0
// SequentialGather: gathering in lock step, one step at a time along the job's tree of additions,
// and the two phases that a step of a slice goes through: FrontierSums, then under cluster eventual
// OrderedSum. Pure; one owner, one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "actors/device_gather.h"
#include "store/slice_sum.h"

namespace troupe::actors {

/// The sum of one node of a machine's frontier.
struct FrontierSum {
  store::TreeNode node;
  store::SumPart sum;
};

/// The first phase of a step: from the ranks' gradients to the sums of the machine's frontier,
/// which are the largest nodes of the tree whose ranks are all here. A sum is complete when it lies
/// in a buffer of the server's own. An addition makes such a buffer; a gradient that no other one
/// is added to (a lone rank, or its siblings had no samples) is copied (decision 0008, Copies).
class FrontierSums {
 public:
  /// `rules` must outlive it.
  FrontierSums(const store::SliceRules& rules, std::uint32_t machine);

  /// A rank's gradient; empty: the rank had no sample. False: this step has it already.
  bool offer(std::uint32_t rank, base::Buffer data, double count);
  /// True when this step has the rank's gradient.
  bool has(std::uint32_t rank) const;
  /// The next addition or copy, each once.
  std::optional<GatherWork> next_work();
  /// A work has ended: the gradients of the ranks below the node have been read for the last time.
  store::TreeNode done(std::uint64_t id, base::Buffer result);

  /// True when all nodes are complete or given.
  bool complete() const;
  /// The next complete sum in rank order, each once in a step.
  std::optional<FrontierSum> next_complete();
  /// Forgets everything, for the next step. CHECKs that all sums have been given.
  void clear();

  /// The machine's ranks whose gradient has not come.
  std::vector<std::uint32_t> missing() const;

 private:
  enum class State : std::uint8_t {
    adding,    // gradients are missing or being added
    copying,   // nothing is missing, but the bytes are a rank's
    complete,  // in a buffer of the server's own, or without samples
    given      // next_complete() has given it
  };
  struct Node {
    store::TreeNode node;
    State state = State::adding;
    store::SumPart sum;  // when complete
  };
  struct Work {
    store::TreeNode node;                   // its ranks' gradients are read
    std::optional<std::uint64_t> addition;  // its name to sum_; none: a copy
  };

  void find_complete();

  const store::SliceRules* rules_;
  std::vector<std::uint32_t> ranks_;
  std::vector<Node> frontier_;  // in rank order
  store::SliceSum sum_;
  std::map<std::uint64_t, Work> running_;  // copies from when they are due, additions when given
  std::deque<GatherWork> copies_;          // not yet given
  std::uint64_t next_id_ = 1;
};

/// The second phase under cluster eventual, where the machine sends one sum per step: the
/// frontier's sums, added one after the other in rank order, so that the result does not depend on
/// which of them was complete first. Use once.
class OrderedSum {
 public:
  /// At least one part, in the order of addition.
  explicit OrderedSum(std::deque<store::SumPart> parts);

  /// The next addition, each once; there is one at a time.
  std::optional<GatherWork> next_work();
  void done(std::uint64_t id, base::Buffer result);

  /// True when nothing is left to add.
  bool complete() const { return parts_.empty() && !running_; }
  /// The whole sum; without data when nobody had a sample. CHECKs complete().
  store::SumPart take();

 private:
  void advance();

  store::SumPart total_;                  // of the parts taken so far
  std::deque<store::SumPart> parts_;      // not yet in it
  std::optional<std::uint64_t> running_;  // the addition under way
  std::optional<GatherWork> ready_;       // the same before it is given
  std::uint64_t next_id_ = 1;
};

/// Device tier sequential. Under cluster sequential each frontier sum goes out by itself, as soon
/// as it is complete; under cluster eventual their sum is the machine's one contribution to the
/// step. Nobody waits for the weights of a key of kind average at every step, so a rank, and with
/// it a machine, may be one step ahead of the others there: a gradient of the next step waits
/// untouched, and a step's sums go out once the owner has taken those of the step before.
class SequentialGather final : public DeviceGather {
 public:
  /// `rules` must outlive it.
  SequentialGather(const store::SliceRules& rules, std::uint32_t machine);
  void push(RankPush push) override;
  std::optional<schemas::PushResult> asked(std::uint32_t rank, std::uint64_t step) const override;
  std::optional<GatherWork> next_work() override;
  void done(std::uint64_t id, base::Buffer result) override;
  std::optional<store::SlicePush> next_push(const OwnerView& owner) override;
  void acknowledged(std::uint64_t step) override;
  std::uint64_t arrived(std::uint32_t) const override { return step_; }
  std::uint64_t begun() const override { return step_ + (early_.empty() ? 1 : 2); }
  std::uint64_t unsent(std::uint32_t) const override { return step_; }
  std::uint64_t number() const override { return step_; }
  std::vector<std::uint32_t> missing() const override { return frontier_.missing(); }

 private:
  void offer(RankPush push);
  void release(const store::TreeNode& node);
  void pass_on();
  void send_frontier();
  void send_whole();
  void end_step();

  const store::SliceRules* rules_;
  std::uint32_t machine_;
  std::uint64_t step_;
  std::map<std::uint32_t, std::size_t> borrowed_;  // ranks whose gradient is still read; bytes
  FrontierSums frontier_;
  std::optional<OrderedSum> whole_;  // cluster eventual: when the frontier is complete
  std::deque<store::SlicePush> outgoing_;
  std::map<std::uint32_t, RankPush> early_;  // by rank: of the next step
  std::uint64_t sent_step_ = 0;              // of the last push given
  std::size_t unacknowledged_ = 0;           // pushes of that step
};

}  // namespace troupe::actors
