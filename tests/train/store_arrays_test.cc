// SPDX-License-Identifier: Apache-2.0
// Arrays of keys on the late test device and on the host: runs, copies, what never travels.
#include "train/store_arrays.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"
#include "tests/support/test_runtime.h"

namespace troupe::train {
namespace {

using ndarray::NDArray;

const base::Device kLate{base::DeviceKind::delayed, 0};

schemas::KeyInfo key_of(std::uint32_t id, std::int64_t elements,
                        base::DType dtype = base::DType::f32) {
  schemas::KeyInfo key;
  key.id = id;
  key.name = "key" + std::to_string(id);
  key.shape = base::Shape{elements};
  key.dtype = key.gradient_wire = key.weight_wire = dtype;
  return key;
}

constexpr auto kRunElements = static_cast<std::int64_t>(kRunBytes / sizeof(float));

std::vector<std::vector<std::uint32_t>> keys_of(const StoreArrays::Runs& runs) {
  std::vector<std::vector<std::uint32_t>> all;
  for (const auto& run : runs) all.push_back(run->keys);
  return all;
}

struct LateRuntime {
  tests::DelayedStream kernels, down, up;
  tests::TestRuntime test{true, {.streams = {&kernels, &down, &up}}};
};

TEST_CASE("of the host a store sees the arrays themselves, key by key", "[store_arrays]") {
  tests::TestRuntime test;
  const std::vector keys = {key_of(0, 3), key_of(1, 0), key_of(2, 5, base::DType::f64)};
  const auto arrays =
      StoreArrays::create(test.runtime, keys, {true, true, false}, base::Device{}).value();
  CHECK(keys_of(arrays.weight_runs()) == std::vector<std::vector<std::uint32_t>>{{0}, {1}, {2}});
  CHECK(keys_of(arrays.gradient_runs()) == std::vector<std::vector<std::uint32_t>>{{2}, {1}, {0}});
  for (const schemas::KeyInfo& key : keys) {
    CHECK(arrays.pulled()[key.id].same_memory(arrays.parameters()[key.id]));
    CHECK(arrays.pushed()[key.id].same_memory(arrays.gradients()[key.id]));
    CHECK(arrays.gradients()[key.id].shape() == key.shape);
    CHECK(arrays.gradients()[key.id].dtype() == key.dtype);
  }
  const std::uint64_t before = test.engine->counters().pushed;
  StoreArrays::to_host(arrays.gradient_runs().front(), 0);
  StoreArrays::to_device(arrays.weight_runs().front(), 0);
  CHECK(test.engine->counters().pushed == before);
}

TEST_CASE("runs end where they are full, and hold what a backward pass writes", "[store_arrays]") {
  LateRuntime late;
  // 0 and 1 together fill a run; 2 is one by itself; 3 is never computed; 4 has no element.
  const std::vector keys = {key_of(0, kRunElements - 1),
                            key_of(1, 1),
                            key_of(2, kRunElements + 7),
                            key_of(3, 4),
                            key_of(4, 0),
                            key_of(5, 2)};
  const std::vector<bool> computed = {true, true, true, false, true, true};
  const auto arrays = StoreArrays::create(late.test.runtime, keys, computed, kLate).value();
  using Keys = std::vector<std::vector<std::uint32_t>>;
  CHECK(keys_of(arrays.weight_runs()) == Keys{{0, 1}, {2}, {3, 4, 5}});
  CHECK(keys_of(arrays.gradient_runs()) == Keys{{5, 4, 2}, {1, 0}, {3}});
  for (const schemas::KeyInfo& key : keys) {
    CHECK(arrays.parameters()[key.id].device() == kLate);
    CHECK(arrays.pulled()[key.id].device() == base::Device{});
    CHECK(arrays.pushed()[key.id].device() == base::Device{});
    CHECK(arrays.gradients()[key.id].device() == (key.id == 3 ? base::Device{} : kLate));
    for (const NDArray& array : {arrays.pushed()[key.id], arrays.parameters()[key.id]}) {
      const std::vector<float> values = array.to_vector<float>().value();
      CHECK(values == std::vector<float>(static_cast<std::size_t>(key.shape.elements())));
    }
  }
}

TEST_CASE("a run travels by one copy, both ways, behind what writes its keys", "[store_arrays]") {
  LateRuntime late;
  const std::vector keys = {key_of(0, 3), key_of(1, 2, base::DType::f64), key_of(2, 70)};
  const auto arrays =
      StoreArrays::create(late.test.runtime, keys, {true, true, true}, kLate).value();
  const auto fill = [](const NDArray& array, float first) {
    const auto count = static_cast<std::size_t>(array.elements());
    base::Buffer values = base::make_host_buffer(array.bytes());
    for (std::size_t i = 0; i < count; ++i) {
      const float value = first + static_cast<float>(i);
      if (array.dtype() == base::DType::f64) {
        values.as<double>()[i] = value;
      } else {
        values.as<float>()[i] = value;
      }
    }
    REQUIRE(array.copy_from(std::move(values)).ok());
  };
  for (const float step : {100.0F, 200.0F}) {
    for (const schemas::KeyInfo& key : keys) {
      fill(arrays.gradients()[key.id], step + static_cast<float>(key.id));
      fill(arrays.pulled()[key.id], -step - static_cast<float>(key.id));
    }
    REQUIRE(late.test.engine->wait_all().ok());
    const std::uint64_t down = late.down.ran(), up = late.up.ran();
    StoreArrays::to_host(arrays.gradient_runs().front(), 0);
    StoreArrays::to_device(arrays.weight_runs().front(), 0);
    REQUIRE(late.test.engine->wait_all().ok());
    CHECK(late.down.ran() == down + 1);
    CHECK(late.up.ran() == up + 1);
    for (const schemas::KeyInfo& key : keys) {
      CHECK(arrays.pushed()[key.id].to_string().substr(0, 20) ==
            arrays.gradients()[key.id].to_string().substr(0, 20));
    }
    CHECK(arrays.pushed()[1].to_vector<double>().value() ==
          std::vector<double>{step + 1, step + 2});
    CHECK(arrays.pushed()[2].to_vector<float>().value().back() == step + 2 + 69);
    CHECK(arrays.parameters()[0].to_vector<float>().value() ==
          std::vector<float>{-step, -step + 1, -step + 2});
  }
}

TEST_CASE("a gradient that failed is an error of what the store reads", "[store_arrays]") {
  LateRuntime late;
  const std::vector keys = {key_of(0, 3), key_of(1, 2)};
  const auto arrays = StoreArrays::create(late.test.runtime, keys, {true, true}, kLate).value();
  const engine::Variable written[] = {arrays.gradients()[1].variable()};
  late.test.engine->push({"fail", {}, {}, {{}, engine::LaneKind::compute}, 0, written},
                         [](engine::RunContext&) {
                           return base::error(base::Errc::internal, "no gradient of key 1");
                         });
  StoreArrays::to_host(arrays.gradient_runs().front(), 0);
  CHECK_THAT(arrays.pushed()[1].wait().text(), Catch::Contains("no gradient of key 1"));
}

}  // namespace
}  // namespace troupe::train
