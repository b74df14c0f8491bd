// SPDX-License-Identifier: Apache-2.0
// LocalStore::Core: what all ranks of a local store share: the owners of all slices, the judge of
// steps, who waits for what. Any thread; work is done on whichever thread brought it about.
// Private to this folder.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "ndarray/ndarray.h"
#include "ndarray/prepared_kernels.h"
#include "store/key_operation.h"
#include "store/local_store.h"
#include "store/slice_compute.h"
#include "store/slice_layout.h"
#include "store/slice_owner.h"
#include "store/slice_rules.h"
#include "store/slice_values.h"
#include "store/step_judge.h"
#include "store/weight_arrivals.h"

namespace troupe::store {

/// See the top of the file.
class LocalStore::Core {
 public:
  /// A pull of a slice and where its buffer goes.
  struct WaitingPull {
    schemas::WeightPull pull;
    std::shared_ptr<WeightArrival> arrival;
    KeyOperationPointer operation;
  };

  /// A rank's gradient of a slice, in its key's dtype or, already rounded, in the gradient_wire.
  struct Gradient {
    std::uint32_t rank = 0;
    PushInfo info;
    base::Buffer values;  ///< none: nothing
    base::DType dtype = base::DType::f32;
  };

  Core(const LocalStoreParts& parts, const LocalStoreOptions& options);

  std::uint32_t ranks() const { return rules_.tree.ranks(); }
  std::span<const SliceInfo> slices(std::uint32_t key) const {
    TROUPE_CHECK(layout_.has_value(), "a push or pull before init");
    return layout_->of_key(key);
  }
  const schemas::KeyInfo& key(std::uint32_t id) const {
    TROUPE_CHECK(id < keys_.size(), "a push or pull of a key that init has not declared");
    return keys_[id];
  }

  base::Status init(std::uint32_t rank, std::span<const schemas::KeyInfo> keys,
                    std::span<const ndarray::NDArray> values);
  base::Status set_updater(const UpdateRule& rule);
  void push(const SliceInfo& slice, Gradient gradient, const KeyOperationPointer& operation,
            engine::RunContext& lane);
  void pull(const SliceInfo& slice, const WaitingPull& waiting);
  std::optional<std::uint64_t> cut_soon();
  void fail(const base::Status& status);
  base::Status failure() const;
  /// Fails the store when a rank is waited for too long; returns after end_watch().
  void watch();
  void end_watch();

 private:
  // The answer to one.
  struct Reply {
    SliceAnswer answer;
    WaitingPull waiting;
  };

  // A slice with everybody who waits for it.
  struct Slot {
    Slot(const SliceRules& rules, const SliceInfo& the_info)
        : info(the_info), owner(rules, info.id) {}

    const SliceInfo info;
    base::Mutex mutex;
    SliceOwner owner TROUPE_GUARDED_BY(mutex);
    // Gradients of the open step: their bytes are read until its update is done.
    KeyOperations pushes TROUPE_GUARDED_BY(mutex);
    std::list<WaitingPull> pulls TROUPE_GUARDED_BY(mutex);
  };

  Slot& slot(const SliceInfo& slice) { return *slots_[layout_->position(slice.id)]; }
  base::Status declare(std::span<const schemas::KeyInfo> keys);
  base::Status start_slices();
  base::Status take_push(Slot& slot, Gradient gradient, const KeyOperationPointer& operation);
  base::Status work(Slot& first, engine::RunContext& lane);
  base::Result<bool> advance(Slot& slot, const UpdateContext& context);
  base::Result<bool> perform(Slot& slot, SliceWork& work, const UpdateContext& context);
  base::Result<bool> judge(Slot& slot, const Examined& examined);
  base::Status published(Slot& slot, const KeyOperations& contained);
  base::Status take_cut(Slot& slot);
  void answer_pulls(Slot& slot);
  void reply(Reply& reply) const;
  std::vector<std::uint32_t> absent_ranks();
  std::string waits_for();

  const LocalStoreParts parts_;
  LocalStoreOptions options_;  // `first` goes with the first values, all else stays
  SliceRules rules_;           // its plan of steps changes in cut_soon() alone
  // Held to read while a slice comes to another version, which looks at that plan; before
  // Slot::mutex.
  base::SharedMutex plan_mutex_;
  std::optional<std::uint64_t> extra_cut_ TROUPE_GUARDED_BY(plan_mutex_);

  base::Mutex judge_mutex_;  // before Slot::mutex
  // Where steps are judged.
  std::optional<FactsOfShard> facts_ TROUPE_GUARDED_BY(judge_mutex_);
  std::optional<StepJudge> judge_ TROUPE_GUARDED_BY(judge_mutex_);

  mutable base::Mutex failure_mutex_;
  base::Status failure_ TROUPE_GUARDED_BY(failure_mutex_);
  base::Mutex mutex_;  // over everything below; the functions that set it up are called under it
  base::CondVar changed_;
  bool published_ = false;                    // rank 0 has called init
  std::vector<schemas::KeyInfo> keys_;        // set once, before any push
  std::optional<SliceLayout> layout_;         // likewise
  std::vector<std::unique_ptr<Slot>> slots_;  // likewise
  std::unique_ptr<SliceCompute> compute_;     // likewise
  bool declared_ = false;
  base::Status begins_;  // of the first set_updater that had a rule: whether slices have begun
  std::vector<bool> begun_ TROUPE_GUARDED_BY(mutex_);  // by rank: it has called init
  bool watch_ended_ TROUPE_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> pushed_{0};       // slices taken from any rank; no order needed
  std::vector<std::vector<std::byte>> given_;  // rank 0's values by key
  std::map<std::uint64_t, std::vector<std::pair<SliceInfo, SliceState>>> cuts_
      TROUPE_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> cutting_ TROUPE_GUARDED_BY(mutex_);  // the cut that is handed in now
};

}  // namespace troupe::store
