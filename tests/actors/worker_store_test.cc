// SPDX-License-Identifier: Apache-2.0
// The worker's store: what it hands to the worker's state machine.
#include "actors/worker_store.h"

#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::actors {
namespace {

schemas::KeyInfo four(base::DType wire) {
  schemas::KeyInfo key;
  key.name = "w";
  key.shape = base::Shape{4};
  key.gradient_wire = key.weight_wire = wire;
  return key;
}

/// A rank's store that has one key; gradients count as taken at once.
struct OneKey {
  explicit OneKey(base::DType wire) {
    const schemas::KeyInfo key = four(wire);
    REQUIRE(store.init(std::span(&key, 1), {}).ok());
  }

  tests::TestRuntime test;
  schemas::JobSpec spec;
  std::vector<PushWanted> pushed;
  std::vector<base::Buffer> weights;  // what a pull brings, by slice
  WorkerStore store{0, spec, test.runtime, [this](WorkerEvent event) {
                      if (const auto* pull = std::get_if<PullWanted>(&event)) {
                        return store.ready({pull->key, pull->step, weights});
                      }
                      pushed.push_back(std::get<PushWanted>(event));
                      store.taken({pushed.back().key});
                    }};
};

TEST_CASE("a gradient of no samples is handed over without bytes", "[worker_store]") {
  OneKey one(base::DType::f32);
  const auto gradient = ndarray::NDArray::zeros(one.test.runtime, base::Shape{4}, base::DType::f32);
  REQUIRE(gradient.ok());
  one.store.push(0, *gradient, {0, 8.0, 0});
  REQUIRE(one.test.engine->wait_all().ok());
  one.store.push(0, *gradient, {1, 0.0, 0});
  REQUIRE(one.test.engine->wait_all().ok());
  REQUIRE(one.pushed.size() == 2);
  CHECK(one.pushed[0].gradient.size() == 16);
  CHECK(one.pushed[0].gradient.data() == gradient->buffer().data());
  CHECK(one.pushed[1].gradient.empty());
}

TEST_CASE("what travels in 16 bits is rounded on its way out and widened on its way in",
          "[worker_store]") {
  OneKey one(base::DType::bf16);
  const std::vector<float> given = {1.00390625F, -2.0F, 0.0F, 3.0F};
  const auto array =
      ndarray::NDArray::from<float>(one.test.runtime, base::Shape{4}, std::span(given));
  REQUIRE(array.ok());
  one.store.push(0, *array, {0, 8.0, 0});
  REQUIRE(one.test.engine->wait_all().ok());
  REQUIRE(one.pushed.size() == 1);
  const base::Buffer& sent = one.pushed[0].gradient;
  REQUIRE(sent.size() == 8);
  CHECK(static_cast<float>(sent.as<base::BF16>()[0]) == 1.0F);
  CHECK(static_cast<float>(sent.as<base::BF16>()[3]) == 3.0F);

  one.weights = {sent.slice(0, 4), sent.slice(4, 4)};
  one.store.pull(0, *array, {1, false});
  REQUIRE(one.test.engine->wait_all().ok());
  std::vector<float> values(4);
  REQUIRE(array->read(std::as_writable_bytes(std::span(values))).ok());
  CHECK(values == std::vector<float>{1.0F, -2.0F, 0.0F, 3.0F});
}

}  // namespace
}  // namespace troupe::actors
