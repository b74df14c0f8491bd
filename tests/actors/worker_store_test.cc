// SPDX-License-Identifier: Apache-2.0
// The worker's store: what it hands to the worker's state machine.
#include "actors/worker_store.h"

#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::actors {
namespace {

TEST_CASE("a gradient of no samples is handed over without bytes", "[worker_store]") {
  tests::TestRuntime test;
  const schemas::JobSpec spec;
  std::vector<PushWanted> pushed;
  WorkerStore* rank_store = nullptr;
  WorkerStore store(0, spec, test.runtime, [&](WorkerEvent event) {
    pushed.push_back(std::get<PushWanted>(event));
    rank_store->taken({pushed.back().key});
  });
  rank_store = &store;
  const auto gradient = ndarray::NDArray::zeros(test.runtime, base::Shape{4}, base::DType::f32);
  REQUIRE(gradient.ok());
  store.push(0, *gradient, {0, 8.0, 0});
  REQUIRE(test.engine->wait_all().ok());
  store.push(0, *gradient, {1, 0.0, 0});
  REQUIRE(test.engine->wait_all().ok());
  REQUIRE(pushed.size() == 2);
  CHECK(pushed[0].gradient.size() == 16);
  CHECK(pushed[1].gradient.empty());
}

}  // namespace
}  // namespace troupe::actors
