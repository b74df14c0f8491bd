// SPDX-License-Identifier: Apache-2.0
// DeviceGather: how a device server sums its ranks' gradients of one slice, and what it sends to
// the slice's owner when. Two ways: in lock step along the job's tree (sequential_gather.h), or
// whatever has come (eventual_gather.h). Pure; one owner, one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "store/slice_owner.h"
#include "store/slice_rules.h"

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
  std::uint64_t id = 0;  ///< names it to done() among the works under way
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
  /// What has become of a gradient: `duplicate` when it has been taken, `unknown` when it has not
  /// come, nothing when its own answer will follow.
  virtual std::optional<schemas::PushResult> asked(std::uint32_t rank,
                                                   std::uint64_t step) const = 0;
  /// The next thing to compute, each once.
  virtual std::optional<GatherWork> next_work() = 0;
  /// A work has ended; CHECKs that it is under way.
  virtual void done(std::uint64_t id, base::Buffer result) = 0;
  /// The next push to the owner. `owner`: what is known of its state.
  virtual std::optional<store::SlicePush> next_push(const OwnerView& owner) = 0;
  /// The owner has taken (or had already) the push of that number, or one of them.
  virtual void acknowledged(std::uint64_t number) = 0;
  /// Per rank of the machine: steps below this have come from it.
  virtual std::uint64_t arrived(std::uint32_t rank) const = 0;
  /// The lowest step of which no rank's gradient has been taken in, nor of a later one.
  virtual std::uint64_t begun() const = 0;
  /// Per rank of the machine: the lowest step not yet sent to the owner.
  virtual std::uint64_t unsent(std::uint32_t rank) const = 0;
  /// The newest version for which a push or an abstention has gone out (eventual device, sequential
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

/// The name of a machine's push where no node of the job's tree names it.
inline store::TreeNode machine_node(std::uint32_t machine) {
  return {1, 0, machine, machine + 1};
}

/// The gatherer for the job's device tier. `rules` must outlive it.
std::unique_ptr<DeviceGather> make_gather(const store::SliceRules& rules, std::uint32_t machine);

}  // namespace troupe::actors
