// SPDX-License-Identifier: Apache-2.0
// Arrays of keys on the late test device and on the host: runs, copies, roundings, what never
// travels.
#include "train/store_arrays.h"

#include <vector>

#include "base/float16.h"
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
  CHECK(keys_of(arrays.gradient_runs()) == std::vector<std::vector<std::uint32_t>>{{2}, {1}, {0}});
  for (const schemas::KeyInfo& key : keys) {
    CHECK(arrays.parameters()[key.id].shape() == key.shape);
    CHECK(arrays.pushed()[key.id].same_memory(arrays.gradients()[key.id]));
    CHECK(arrays.gradients()[key.id].shape() == key.shape);
    CHECK(arrays.gradients()[key.id].dtype() == key.dtype);
  }
  const std::uint64_t before = test.engine->counters().pushed;
  StoreArrays::to_host(arrays.gradient_runs().front(), 0);
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
  CHECK(keys_of(arrays.gradient_runs()) == Keys{{5, 4, 2}, {1, 0}, {3}});
  for (const schemas::KeyInfo& key : keys) {
    CHECK(arrays.parameters()[key.id].device() == kLate);
    CHECK(arrays.pushed()[key.id].device() == base::Device{});
    CHECK(arrays.gradients()[key.id].device() == (key.id == 3 ? base::Device{} : kLate));
    for (const NDArray& array : {arrays.pushed()[key.id], arrays.parameters()[key.id]}) {
      const std::vector<float> values = array.to_vector<float>().value();
      CHECK(values == std::vector<float>(static_cast<std::size_t>(key.shape.elements())));
    }
  }
}

TEST_CASE("a run leaves by one copy, behind what writes its keys", "[store_arrays]") {
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
    }
    REQUIRE(late.test.engine->wait_all().ok());
    const std::uint64_t down = late.down.ran();
    StoreArrays::to_host(arrays.gradient_runs().front(), 0);
    REQUIRE(late.test.engine->wait_all().ok());
    CHECK(late.down.ran() == down + 1);
    for (const schemas::KeyInfo& key : keys) {
      CHECK(arrays.pushed()[key.id].to_string().substr(0, 20) ==
            arrays.gradients()[key.id].to_string().substr(0, 20));
    }
    CHECK(arrays.pushed()[1].to_vector<double>().value() ==
          std::vector<double>{step + 1, step + 2});
    CHECK(arrays.pushed()[2].to_vector<float>().value().back() == step + 2 + 69);
  }
}

TEST_CASE("gradients are rounded to what they travel in before they leave", "[store_arrays]") {
  LateRuntime late;
  std::vector keys = {key_of(0, 3), key_of(1, 130), key_of(2, 2), key_of(3, 5)};
  keys[1].gradient_wire = keys[3].gradient_wire = base::DType::bf16;
  const auto arrays =
      StoreArrays::create(late.test.runtime, keys, std::vector<bool>(4, true), kLate).value();
  REQUIRE(arrays.gradient_runs().size() == 1);
  const KeyRun& run = *arrays.gradient_runs().front();
  REQUIRE(run.parts.size() == 2);
  CHECK(run.host_block.size() < run.device_block.size());
  for (const schemas::KeyInfo& key : keys) {
    CHECK(arrays.pushed()[key.id].dtype() == key.gradient_wire);
    std::vector<float> values;
    for (std::int64_t i = 0; i < key.shape.elements(); ++i) {
      values.push_back(1.0F + 0.001F * static_cast<float>(i) + static_cast<float>(key.id));
    }
    const auto bytes = std::as_bytes(std::span(values));
    REQUIRE(arrays.gradients()[key.id].write(bytes).ok());
  }
  StoreArrays::to_host(arrays.gradient_runs().front(), 0);
  for (const schemas::KeyInfo& key : keys) {
    const NDArray& pushed = arrays.pushed()[key.id];
    std::vector<std::byte> found(pushed.bytes());
    REQUIRE(pushed.read(found).ok());
    for (std::int64_t i = 0; i < key.shape.elements(); ++i) {
      const float exact = 1.0F + 0.001F * static_cast<float>(i) + static_cast<float>(key.id);
      if (key.gradient_wire == base::DType::f32) {
        CHECK(reinterpret_cast<const float*>(found.data())[i] == exact);
      } else {
        const auto rounded = reinterpret_cast<const base::BF16*>(found.data())[i];
        CHECK(static_cast<float>(rounded) == static_cast<float>(base::BF16(exact)));
      }
    }
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
