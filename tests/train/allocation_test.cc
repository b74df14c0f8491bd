// SPDX-License-Identifier: Apache-2.0
// What a step of training asks allocators for: kernels nothing, tensors come from the pools. What
// remains is the bookkeeping of the store's operations, small pieces per key. Loading data and
// reporting are not part of it.
#include <algorithm>
#include <vector>

#include "ndarray/runtime.h"
#include "store/local_store.h"
#include "tests/support/count_allocations.h"
#include "tests/support/job_files.h"
#include "tests/support/test_runtime.h"
#include "train/job.h"
#include "train/module.h"

namespace troupe::train {
namespace {

/// A rank alone with its store, on one batch.
class Training {
 public:
  explicit Training(const std::string& network) : folder_("train-allocations-" + network) {
    const int side = network == "lenet" ? 28 : 12;
    write_test_records(folder_.path() / "train.rec", 64, side);
    write_test_records(folder_.path() / "test.rec", 4, side);
    schemas::JobSpec spec = test_job(folder_.path(), network);
    spec.workers.machines = 1;
    spec.workers.devices = 1;
    spec.train.epochs = 1000;
    job_ = open_job(spec, tests::test_operators()).value();
    ModuleOptions options;
    options.inputs = job_->keys.inputs;
    options.seed = spec.seed;
    module_ = Module::create(test_.runtime, job_->network, options).value();
    REQUIRE(module_->init_params(spec.train.initializer).ok());
    const store::LocalStoreOptions how{
        .batch = spec.data.batch,
        .steps = store::make_step_plan(job_->spec, job_->train_data->records(), 0),
        .deadline_ms = spec.limits.stall_ms};
    store_ =
        store::LocalStore::create({tests::test_operators(), pool(), test_.kernels}, how).value();
    door_ = store_->rank_store(0, test_.runtime);
    REQUIRE(module_->init_optimizer(*door_, job_->rule(), true).ok());
    REQUIRE(module_->pull(0, true).ok());
    batch_.size = spec.data.batch;
    const std::size_t pixels = static_cast<std::size_t>(side * side);
    batch_.data = filled(spec.data.batch * pixels, 0.5F);
    batch_.labels = filled(spec.data.batch, 1.0F);
  }

  tests::Allocations step(std::uint64_t number) {
    const tests::CountAllocations count;
    const bool pushed = module_->forward_backward(batch_, number).ok() &&
                        module_->update(number, static_cast<double>(batch_.size), true).ok();
    const bool done = test_.engine->wait_all().ok();
    const tests::Allocations asked = count.so_far();
    REQUIRE(pushed);
    REQUIRE(done);
    return asked;
  }

  storage::PoolFigures pool_statistics() { return test_.storage.statistics({}); }

 private:
  base::BufferPool& pool() { return test_.storage.pool(base::Device{}); }
  static base::Buffer filled(std::size_t count, float value) {
    base::Buffer buffer = base::make_host_buffer(count * sizeof(float));
    std::fill_n(buffer.as<float>().begin(), count, value);
    return buffer;
  }

  TestFolder folder_;
  std::shared_ptr<const Job> job_;
  tests::TestRuntime test_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<store::LocalStore> store_;
  std::unique_ptr<store::KVStore> door_;
  ModuleBatch batch_;
};

// Sanitizers are slow and count nothing: there a few steps show that the pools serve again.
#ifdef TROUPE_COUNTS_ALLOCATIONS
constexpr int kWarmSteps = 40;
constexpr int kSteps = 20;
#else
constexpr int kWarmSteps = 4;
constexpr int kSteps = 2;
#endif
/// The largest piece of bookkeeping (seen: 2,112 bytes; LeNet's largest tensors have 1.6 MB), and
/// pieces per step (seen: 345).
constexpr std::size_t kBookkeepingBytesMax = 4096;
constexpr std::uint64_t kBookkeepingCallsMax = 400;

TEST_CASE("a step of training asks allocators for bookkeeping only", "[allocation]") {
  for (const std::string network : {"lenet", "tiny-bn"}) {
    Training training(network);
    for (int step = 0; step < kWarmSteps; ++step) {
      training.step(static_cast<std::uint64_t>(step));
    }
    const storage::PoolFigures before = training.pool_statistics();
    tests::Allocations most;
    for (int step = kWarmSteps; step < kWarmSteps + kSteps; ++step) {
      const tests::Allocations asked = training.step(static_cast<std::uint64_t>(step));
      most.calls = std::max(most.calls, asked.calls);
      most.largest_bytes = std::max(most.largest_bytes, asked.largest_bytes);
    }
    INFO(network << ": " << most.calls << " calls, largest " << most.largest_bytes);
    CHECK(most.largest_bytes <= kBookkeepingBytesMax);
    CHECK(most.calls <= kBookkeepingCallsMax);
    const storage::PoolFigures after = training.pool_statistics();
    CHECK(after.misses == before.misses);
    CHECK(after.used_bytes == before.used_bytes);
  }
}

}  // namespace
}  // namespace troupe::train
