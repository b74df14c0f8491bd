// SPDX-License-Identifier: Apache-2.0
// The rank stores that turn calls into engine operations, and who makes them.
#include "store/local_store.h"

#include <utility>

#include "store/key_operation.h"
#include "store/local_core.h"
#include "store/slice_layout.h"
#include "store/weight_arrivals.h"

namespace troupe::store {

using ndarray::NDArray;
using schemas::KeyInfo;

namespace {

// One rank's KVStore: each call is one asynchronous operation on the rank's copy lane, which may
// end after this object.
class RankStore final : public KVStore {
 public:
  RankStore(std::shared_ptr<LocalStore::Core> core, std::uint32_t rank, ndarray::Runtime& runtime)
      : core_(std::move(core)), rank_(rank), runtime_(runtime), arrivals_(runtime) {}

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return core_->ranks(); }

  base::Status init(std::span<const KeyInfo> keys, std::span<const NDArray> values) override {
    return core_->init(rank_, keys, values);
  }
  base::Status set_updater(const UpdateRule& rule) override { return core_->set_updater(rule); }

  void push(std::uint32_t key, const NDArray& gradient, const PushInfo& info) override {
    check_gradient(core_->key(key), gradient);
    const engine::Variable reads[] = {gradient.variable()};
    runtime_.engine.push_async(
        {"push", reads, {}, engine::kHostCopyLane, info.priority},
        [core = core_, rank = rank_, key, gradient, info](engine::RunContext& lane,
                                                          engine::Completion completion) {
          const auto slices = core->slices(key);
          const auto operation =
              std::make_shared<KeyOperation>(slices.size(), std::move(completion));
          const base::Buffer bytes = gradient.buffer();
          std::size_t begin = 0;
          for (const SliceInfo& slice : slices) {
            const std::size_t size = slice.elements * base::dtype_size(gradient.dtype());
            base::Buffer part =
                info.ready_count() == 0.0 ? base::Buffer() : bytes.slice(begin, size);
            core->push(slice, {rank, info, std::move(part), gradient.dtype()}, operation, lane);
            begin += size;
          }
        });
  }

  void pull(std::uint32_t key, const NDArray& weight, const PullInfo& info) override {
    arrivals_.pull(core_->key(key), weight, info.priority,
                   [core = core_, key, info](const std::shared_ptr<WeightArrival>& arrival) {
                     const auto wanted = core->slices(key);
                     arrival->slices().resize(wanted.size());
                     const auto operation = std::make_shared<KeyOperation>(wanted.size(), arrival);
                     for (const SliceInfo& slice : wanted) {
                       core->pull(slice, {{slice.id, info.step, 0, info.step}, arrival, operation});
                     }
                   });
  }

  base::Status finish(std::uint64_t) override { return {}; }

 private:
  std::shared_ptr<LocalStore::Core> core_;
  std::uint32_t rank_;
  ndarray::Runtime& runtime_;
  WeightArrivals arrivals_;
};

}  // namespace

LocalStore::LocalStore(std::shared_ptr<Core> core) : core_(std::move(core)) {
  if (core_->ranks() > 1) watch_ = std::thread([core = core_] { core->watch(); });
}

LocalStore::~LocalStore() {
  core_->end_watch();
  if (watch_.joinable()) watch_.join();
}

base::Result<std::unique_ptr<LocalStore>> LocalStore::create(const LocalStoreParts& parts,
                                                             const LocalStoreOptions& options) {
  const schemas::WorkersSpec& workers = options.workers;
  if (workers.machines == 0 || workers.devices == 0) {
    return base::error(base::Errc::invalid_argument,
                       "a local store of {} machines x {} devices has no ranks", workers.machines,
                       workers.devices);
  }
  if (options.batch == 0) {
    return base::error(base::Errc::invalid_argument, "a local store for batches of 0 samples");
  }
  if (!options.consistency.sequential()) {
    return base::error(base::Errc::invalid_argument,
                       "the local store is sequential; eventual tiers need the company");
  }
  return std::unique_ptr<LocalStore>(new LocalStore(std::make_shared<Core>(parts, options)));
}

std::unique_ptr<KVStore> LocalStore::rank_store(std::uint32_t rank, ndarray::Runtime& runtime) {
  TROUPE_CHECK(rank < core_->ranks(), "no such rank");
  return std::make_unique<RankStore>(core_, rank, runtime);
}

std::optional<std::uint64_t> LocalStore::cut_soon() {
  return core_->cut_soon();
}

void LocalStore::fail(const base::Status& status) {
  core_->fail(status);
}

base::Status LocalStore::failure() const {
  return core_->failure();
}

}  // namespace troupe::store
