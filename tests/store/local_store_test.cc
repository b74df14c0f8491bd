// SPDX-License-Identifier: Apache-2.0
// The stores of the local store's ranks: what ranks without samples take part with.
#include "store/local_store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>

#include "store/slice_layout.h"
#include "store/slice_values.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::store {
namespace {

using ndarray::NDArray;

NDArray filled(ndarray::Runtime& runtime, float value) {
  base::Buffer bytes = base::make_host_buffer(4 * sizeof(float));
  std::fill_n(bytes.as<float>().begin(), 4, value);
  return NDArray::from_buffer(runtime, bytes, base::Shape{4}, base::DType::f32);
}

std::unique_ptr<LocalStore> make_store(tests::TestRuntime& test,
                                       const LocalStoreOptions& options = {}) {
  base::BufferPool& pool = test.storage.pool(base::Device{});
  return LocalStore::create({tests::test_operators(), pool, test.kernels}, options).value();
}

/// Two ranks with one key of four weights, all 1; lr 1, no momentum.
class Pair {
 public:
  explicit Pair(CutFunction cut = {}, std::uint64_t stall_ms = 60'000) {
    const std::vector<schemas::KeyInfo> keys = {{0, "w", base::Shape{4}}};
    StepPlan steps;
    steps.total = 4;
    steps.epoch_steps = 4;
    steps.checkpoints = cut != nullptr;
    const LocalStoreOptions options{.workers = {.devices = 2},
                                    .batch = 8,
                                    .steps = steps,
                                    .cut = std::move(cut),
                                    .deadline_ms = 1000,
                                    .stall_ms = stall_ms};
    store_ = make_store(test_, options);
    UpdateRule rule;
    rule.optimizer.lr = 1.0;
    const std::array values = {filled(test_.runtime, 1.0F)};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      rank_stores_[rank] = store_->rank_store(rank, test_.runtime);
      REQUIRE(rank_stores_[rank]
                  ->init(keys,
                         rank == 0 ? std::span<const NDArray>(values) : std::span<const NDArray>())
                  .ok());
    }
    for (const auto& rank_store : rank_stores_) REQUIRE(rank_store->set_updater(rule).ok());
  }

  void push(std::uint32_t rank, float value, const PushInfo& info) {
    rank_stores_[rank]->push(0, filled(test_.runtime, value), info);
  }

  std::vector<float> weights(std::uint64_t step) {
    const NDArray weight = filled(test_.runtime, 0.0F);
    rank_stores_[0]->pull(0, weight, {step, false, 0});
    REQUIRE(test_.engine->wait_all().ok());
    return weight.to_vector<float>().value();
  }

  /// For everything pushed; the first error of it.
  base::Status wait() { return test_.engine->wait_all(); }
  /// Once nothing runs any more.
  base::Status failure() {
    REQUIRE(test_.engine->wait_all().ok());
    return store_->failure();
  }

 private:
  tests::TestRuntime test_;
  std::unique_ptr<LocalStore> store_;
  std::array<std::unique_ptr<KVStore>, 2> rank_stores_;
};

TEST_CASE("the bytes of a rank without samples reach no sum", "[local_store]") {
  Pair pair;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  pair.push(0, 4.0F, {0, 8.0, 0});
  pair.push(1, nan, {0, 0.0, 0});
  CHECK(pair.weights(1) == std::vector<float>(4, 0.5F));
  pair.push(0, nan, {1, 0.0, 0});
  pair.push(1, 2.0F, {1, 8.0, 0});
  CHECK(pair.weights(2) == std::vector<float>(4, 0.25F));
}

TEST_CASE("first values that do not fit their keys are refused by the key's name",
          "[local_store]") {
  tests::TestRuntime test;
  const LocalStoreOptions options{.workers = {.devices = 2}, .batch = 8, .deadline_ms = 1000};
  const auto store = make_store(test, options);
  const std::vector<schemas::KeyInfo> keys = {{0, "v", base::Shape{4}}, {1, "w", base::Shape{2}}};
  const std::array values = {filled(test.runtime, 1.0F), filled(test.runtime, 1.0F)};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto rank_store = store->rank_store(rank, test.runtime);
    const base::Status shape = rank_store->init(keys, values);
    CHECK(shape.code() == base::Errc::invalid_argument);
    CHECK_THAT(shape.text(), Catch::Contains("key 'w'") && Catch::Contains("(4,)"));
    CHECK(rank_store->init(keys, std::span(values).first(1)).text() == "1 values for 2 keys");
  }
}

TEST_CASE("a local store says why it cannot be made", "[local_store]") {
  tests::TestRuntime test;
  const auto refused = [&](const LocalStoreOptions& options) {
    base::BufferPool& pool = test.storage.pool(base::Device{});
    const auto store = LocalStore::create({tests::test_operators(), pool, test.kernels}, options);
    CHECK(store.status().code() == base::Errc::invalid_argument);
    return store.status().text();
  };
  CHECK(refused({.workers = {.machines = 2, .devices = 0}}) ==
        "a local store of 2 machines x 0 devices has no ranks");
  CHECK(refused({.batch = 0}) == "a local store for batches of 0 samples");
  CHECK_THAT(refused({.consistency = {.cluster = {.mode = schemas::ConsistencyMode::eventual}}}),
             Catch::Contains("sequential"));
}

TEST_CASE("a rank that never begins fails those that wait, by its name", "[local_store]") {
  tests::TestRuntime test;
  StepPlan steps;
  steps.total = steps.epoch_steps = 4;
  const LocalStoreOptions options{
      .workers = {.devices = 3}, .batch = 8, .steps = steps, .deadline_ms = 200};
  const auto store = make_store(test, options);
  const std::vector<schemas::KeyInfo> keys = {{0, "w", base::Shape{4}}};
  const std::array values = {filled(test.runtime, 1.0F)};
  const auto door = store->rank_store(0, test.runtime);
  REQUIRE(door->init(keys, values).ok());
  REQUIRE(door->set_updater({}).ok());
  door->push(0, filled(test.runtime, 1.0F), {0, 8.0, 0});
  const NDArray weight = filled(test.runtime, 0.0F);
  door->pull(0, weight, {1, true, 0});
  const base::Status status = weight.wait();
  CHECK(status.code() == base::Errc::deadline_exceeded);
  CHECK_THAT(status.text(), Catch::Contains("ranks 1, 2 did not begin within 200 ms"));
  CHECK(store->failure() == status);
}

TEST_CASE("a rank that takes no part any more fails those that wait, by its name",
          "[local_store]") {
  Pair pair({}, 200);
  pair.push(0, 1.0F, {0, 8.0, 0});
  const base::Status status = pair.wait();
  CHECK(status.code() == base::Errc::deadline_exceeded);
  CHECK_THAT(status.text(), Catch::Contains("nothing was pushed for 200 ms") &&
                                Catch::Contains("step 0 waits for ranks 1"));
}

TEST_CASE("nobody who does not wait is failed, however long nothing is pushed", "[local_store]") {
  Pair pair({}, 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(pair.failure().ok());
}

TEST_CASE("a rank begins once on a store", "[local_store]") {
  tests::TestRuntime test;
  const auto store = make_store(test);
  const std::vector<schemas::KeyInfo> keys = {{0, "w", base::Shape{4}}};
  const std::array values = {filled(test.runtime, 1.0F)};
  const auto door = store->rank_store(0, test.runtime);
  REQUIRE(door->init(keys, values).ok());
  const base::Status again = store->rank_store(0, test.runtime)->init(keys, values);
  CHECK(again.code() == base::Errc::failed_precondition);
  CHECK_THAT(again.text(), Catch::Contains("rank 0 has begun on this store before"));
}

TEST_CASE("a store that has failed fails ranks that begin", "[local_store]") {
  tests::TestRuntime test;
  const LocalStoreOptions options{.workers = {.devices = 2}, .batch = 8};
  const auto store = make_store(test, options);
  const std::vector<schemas::KeyInfo> keys = {{0, "w", base::Shape{4}}};
  const std::array values = {filled(test.runtime, 1.0F)};
  const auto second = store->rank_store(1, test.runtime);
  base::Status waited;
  std::thread waiter([&] { waited = second->init(keys, values); });  // for rank 0's values
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  store->fail(base::error(base::Errc::cancelled, "somebody stopped it"));
  waiter.join();
  CHECK(waited.text() == "somebody stopped it");
  CHECK(store->rank_store(0, test.runtime)->init(keys, values) == waited);
  CHECK_FALSE(second->set_updater({}).ok());
}

TEST_CASE("a store without first values says so at every set_updater", "[local_store]") {
  tests::TestRuntime test;
  const auto store = make_store(test);
  const auto door = store->rank_store(0, test.runtime);
  REQUIRE(door->init(std::vector<schemas::KeyInfo>{{0, "w", base::Shape{4}}}, {}).ok());
  for (int call = 0; call < 2; ++call) {
    CHECK(door->set_updater({}).text() == "key 'w' has no first values");
  }
}

TEST_CASE("a last cut that fails is known though nobody pulls any more", "[local_store]") {
  Pair pair([](std::uint64_t step, const std::vector<std::pair<SliceInfo, SliceState>>&) {
    return base::error(base::Errc::resource_exhausted, "no room for step {}", step);
  });
  for (std::uint64_t step = 0; step < 4; ++step) {
    CHECK(pair.failure().ok());
    for (std::uint32_t rank = 0; rank < 2; ++rank) pair.push(rank, 1.0F, {step, 8.0, 0});
  }
  CHECK(pair.failure().text() == "no room for step 4");
}

}  // namespace
}  // namespace troupe::store
