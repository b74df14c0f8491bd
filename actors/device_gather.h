// SPDX-License-Identifier: Apache-2.0
// DeviceGather: how a device server sums its ranks' gradients of one slice, and what it sends to
// the slice's owner when. Two ways: in lock step along the job's tree, or whatever has come. Pure;
// one owner, one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "store/slice_owner.h"
#include "store/slice_rules.h"
#include "store/slice_sum.h"

namespace troupe::actors {

/// A rank's gradient of the slice at one step.
struct RankPush {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  double count = 0.0;
  base::Buffer data;  ///< the executor's own; empty: nothing (count 0)
};

/// The answer to a rank's push: `taken` when nobody will read the gradient again.
struct RankAnswer {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  schemas::PushResult result = schemas::PushResult::taken;
  std::size_t bytes = 0;  ///< taken: of the gradient
};

/// Add left + right, or copy left when right is empty, into a buffer of the server's own.
struct GatherWork {
  std::uint64_t id = 0;
  base::Buffer left;
  base::Buffer right;
};

/// What a machine knows of a slice's owner when it sends.
struct OwnerView {
  std::optional<std::uint64_t> version;  ///< of the newest weights held
  bool contained = false;                ///< those contain everything the machine has sent
  bool blocked = false;  ///< all ranks of the machine wait for weights of some slice
};

/// Sums on their way from ranks to the slice's owner. A gradient is only borrowed: it is answered
/// `taken` once it has been added or copied, and what goes to the owner is never a rank's buffer.
class DeviceGather {
 public:
  virtual ~DeviceGather() = default;
  /// Takes a gradient; the answer comes by take_answers(), at once for what is not taken.
  virtual void push(RankPush push) = 0;
  /// The next thing to compute, each once.
  virtual std::optional<GatherWork> next_work() = 0;
  virtual void done(std::uint64_t id, base::Buffer result) = 0;
  /// The next push to the owner. `held`: what is known of the owner's state.
  virtual std::optional<store::SlicePush> next_push(const OwnerView& held) = 0;
  /// The owner has taken (or had already) the push of that number.
  virtual void acknowledged(std::uint64_t number) = 0;
  /// Per rank of the machine: steps below this have come from it.
  virtual std::uint64_t arrived(std::uint32_t rank) const = 0;
  /// Per rank of the machine: the lowest step not yet sent to the owner.
  virtual std::uint64_t unsent(std::uint32_t rank) const = 0;
  /// The newest version for which a push or an excuse has gone out (eventual device, sequential
  /// cluster).
  virtual std::optional<std::uint64_t> spoken_version() const { return std::nullopt; }
  /// Pushes sent so far, as the next one's number.
  virtual std::uint64_t number() const = 0;
  /// Ranks whose gradient the sum waits for.
  virtual std::vector<std::uint32_t> missing() const = 0;

  std::vector<RankAnswer> take_answers() { return std::exchange(answers_, {}); }

 protected:
  void answer(std::uint32_t rank, std::uint64_t step, schemas::PushResult result,
              std::size_t bytes = 0) {
    answers_.push_back({rank, step, result, bytes});
  }

 private:
  std::vector<RankAnswer> answers_;
};

/// The gatherer for the job's device tier. `rules` must outlive it.
std::unique_ptr<DeviceGather> make_gather(const store::SliceRules& rules, std::uint32_t machine);

/// Device tier sequential: one step at a time, along the tree. Under cluster sequential each
/// frontier node of the machine goes out by itself; under cluster eventual their sum, added in rank
/// order, is the machine's one contribution to the step.
class SequentialGather final : public DeviceGather {
 public:
  SequentialGather(const store::SliceRules& rules, std::uint32_t machine);
  void push(RankPush push) override;
  std::optional<GatherWork> next_work() override;
  void done(std::uint64_t id, base::Buffer result) override;
  std::optional<store::SlicePush> next_push(const OwnerView& held) override;
  void acknowledged(std::uint64_t) override {}
  std::uint64_t arrived(std::uint32_t) const override { return step_; }
  std::uint64_t unsent(std::uint32_t) const override { return step_; }
  std::uint64_t number() const override { return step_; }
  std::vector<std::uint32_t> missing() const override;

 private:
  struct Running {
    enum class Kind { addition, copy, chain };
    Kind kind = Kind::addition;
    std::uint64_t addition = 0;  // its name to sum_
    store::TreeNode node;        // addition, copy: whose ranks are then done with
  };

  void settle();
  void release(const store::TreeNode& node);
  void finish_step();

  const store::SliceRules* rules_;
  std::uint32_t machine_;
  std::vector<std::uint32_t> ranks_;
  std::vector<store::TreeNode> frontier_;
  std::uint64_t step_;
  store::SliceSum sum_;
  std::map<std::uint32_t, std::size_t> borrowed_;     // ranks whose gradient is still read; bytes
  std::map<store::TreeNode, store::SumPart> closed_;  // frontier sums in own buffers, or empty
  std::set<store::TreeNode> copying_;
  std::deque<store::SumPart> chain_;  // cluster eventual: frontier sums not yet in one
  bool chaining_ = false;
  std::map<std::uint64_t, Running> running_;
  std::deque<GatherWork> ready_;
  std::deque<store::SlicePush> outgoing_;
  std::uint64_t next_id_ = 1;
};

/// Device tier eventual: gradients are added in order of arrival to what has not been sent. Under
/// cluster sequential one push goes out per version held, or an excuse when nothing is there and
/// all ranks wait; under cluster eventual one whenever the last has been
/// acknowledged.
class EventualGather final : public DeviceGather {
 public:
  EventualGather(const store::SliceRules& rules, std::uint32_t machine);
  void push(RankPush push) override;
  std::optional<GatherWork> next_work() override;
  void done(std::uint64_t id, base::Buffer result) override;
  std::optional<store::SlicePush> next_push(const OwnerView& held) override;
  void acknowledged(std::uint64_t number) override;
  std::uint64_t arrived(std::uint32_t rank) const override { return arrived_.at(rank); }
  std::uint64_t unsent(std::uint32_t rank) const override { return unsent_.at(rank); }
  std::optional<std::uint64_t> spoken_version() const override {
    return std::max(pushed_version_, excused_version_);
  }
  std::uint64_t number() const override { return number_; }
  std::vector<std::uint32_t> missing() const override;

 private:
  void take(const RankPush& push);
  std::optional<store::SlicePush> excuse(const OwnerView& held);

  const store::SliceRules* rules_;
  std::uint32_t machine_;
  std::map<std::uint32_t, std::uint64_t> arrived_;  // per rank: lowest step not come
  std::map<std::uint32_t, std::uint64_t> unsent_;
  std::deque<RankPush> arrivals_;  // at most one per rank: a gradient is free again when taken
  std::optional<RankPush> adding_;
  store::SlicePush held_;  // the sum not yet sent
  std::optional<std::uint64_t> outstanding_;
  std::optional<std::uint64_t> pushed_version_;
  std::optional<std::uint64_t> excused_version_;
  std::uint64_t number_ = 0;
  std::uint64_t next_id_ = 1;
};

}  // namespace troupe::actors
