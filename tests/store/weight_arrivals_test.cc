// SPDX-License-Identifier: Apache-2.0
// Pulls into arrays of the host and of the late test device: what is asked when, what is kept for
// how long, values, dtypes, errors.
#include "store/weight_arrivals.h"

#include <deque>
#include <future>
#include <thread>
#include <vector>

#include "base/float16.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"
#include "tests/support/test_runtime.h"

namespace troupe::store {
namespace {

using ndarray::NDArray;

const base::Device kLate{base::DeviceKind::delayed, 0};

schemas::KeyInfo key_of(std::uint32_t id, std::int64_t elements, base::DType wire) {
  schemas::KeyInfo key;
  key.id = id;
  key.shape = base::Shape{elements};
  key.weight_wire = wire;
  return key;
}

/// A rank whose weights on a device are `late`.
struct Rank {
  tests::DelayedStream kernels, down, up;
  tests::TestRuntime test{true, {.streams = {&kernels, &down, &up}}};
  WeightArrivals arrivals{test.runtime};
  base::Mutex mutex;
  using Asked = std::shared_ptr<WeightArrival>;
  std::deque<Asked> asked TROUPE_GUARDED_BY(mutex);

  ~Rank() { test.engine->cancel("the test has ended"); }
  void pull(const schemas::KeyInfo& key, const NDArray& weight) {
    arrivals.pull(key, weight, 0, [this](const Asked& arrival) {
      const base::MutexLock lock(mutex);
      asked.push_back(arrival);
    });
  }
  std::size_t count() {
    const base::MutexLock lock(mutex);
    return asked.size();
  }
  /// The oldest question, once it has been asked.
  Asked next() {
    while (count() == 0) std::this_thread::yield();
    const base::MutexLock lock(mutex);
    Asked first = std::move(asked.front());
    asked.pop_front();
    return first;
  }
};

base::Buffer slice_of(std::vector<float> values, base::DType dtype) {
  const base::Buffer made = base::make_host_buffer(values.size() * base::dtype_size(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == base::DType::bf16) {
      made.as<base::BF16>()[i] = base::BF16(values[i]);
    } else {
      made.as<float>()[i] = values[i];
    }
  }
  return made;
}

TEST_CASE("weights fill arrays of hosts and devices, widened where they travel in 16 bits",
          "[weight_arrivals]") {
  for (const base::Device device : {base::Device{}, kLate}) {
    for (const base::DType wire : {base::DType::f32, base::DType::bf16}) {
      Rank rank;
      const schemas::KeyInfo key = key_of(0, 7, wire), other = key_of(1, 3, wire);
      const NDArray weight =
          NDArray::zeros(rank.test.runtime, key.shape, base::DType::f32, device).value();
      const NDArray more =
          NDArray::zeros(rank.test.runtime, other.shape, base::DType::f32, device).value();
      for (int step = 0; step < 3; ++step) {
        const auto s = static_cast<float>(step);
        rank.pull(other, more);
        rank.pull(key, weight);
        auto first = rank.next();
        // The larger slice comes second: a place to widen it in must grow.
        first->slices() = {slice_of({s}, wire), slice_of({s + 1, s + 2}, wire)};
        first->end({});
        auto second = rank.next();
        second->slices() = {slice_of({s, -1, 2, 3}, wire), slice_of({4, s, 0.5F}, wire)};
        second->end({});
        CHECK(weight.to_vector<float>().value() == std::vector<float>{s, -1, 2, 3, 4, s, 0.5F});
        CHECK(more.to_vector<float>().value() == std::vector<float>{s, s + 1, s + 2});
      }
    }
  }
}

TEST_CASE("weights are asked for while those before are still read", "[weight_arrivals]") {
  Rank rank;
  const schemas::KeyInfo key = key_of(0, 2, base::DType::f32);
  const NDArray weight =
      NDArray::zeros(rank.test.runtime, key.shape, base::DType::f32, kLate).value();
  rank.pull(key, weight);
  auto first = rank.next();
  first->slices() = {slice_of({1, 2}, base::DType::f32)};
  first->end({});
  rank.kernels.hold();
  const NDArray read = weight.copy();  // a forward pass that has not run yet
  rank.pull(key, weight);
  auto second = rank.next();
  second->slices() = {slice_of({3, 4}, base::DType::f32)};
  second->end({});
  rank.kernels.release();
  CHECK(read.to_vector<float>().value() == std::vector<float>{1, 2});
  CHECK(weight.to_vector<float>().value() == std::vector<float>{3, 4});
}

TEST_CASE("slices stay until a device has read them, and no longer than to the next pull",
          "[weight_arrivals]") {
  Rank rank;
  const schemas::KeyInfo key = key_of(0, 2, base::DType::f32);
  const NDArray late =
      NDArray::zeros(rank.test.runtime, key.shape, base::DType::f32, kLate).value();
  base::Buffer sent = slice_of({1, 2}, base::DType::f32);
  rank.up.hold();
  rank.pull(key, late);
  auto first = rank.next();
  first->slices() = {sent};
  first->end({});
  rank.pull(key, late);
  CHECK(sent.use_count() == 2);  // the copy has not run, so nothing is asked
  CHECK(rank.count() == 0);
  rank.up.release();
  auto second = rank.next();
  CHECK(sent.use_count() == 1);
  second->end(base::error(base::Errc::unavailable, "no weights any more"));
  CHECK_THAT(late.wait().text(), Catch::Contains("no weights any more"));

  // On the host they go once they have been copied.
  const schemas::KeyInfo near = key_of(1, 2, base::DType::f32);
  const NDArray weight = NDArray::zeros(rank.test.runtime, near.shape).value();
  rank.pull(near, weight);
  auto third = rank.next();
  third->slices() = {sent};
  third->end({});
  REQUIRE(weight.wait().ok());
  CHECK(sent.use_count() == 1);
}

TEST_CASE("two arrays of one key are filled one after the other, wherever they are",
          "[weight_arrivals]") {
  const base::Device host{};
  for (const auto& [one, other] : {std::pair(host, host), std::pair(host, kLate),
                                   std::pair(kLate, host), std::pair(kLate, kLate)}) {
    Rank rank;
    const schemas::KeyInfo key = key_of(0, 2, base::DType::f32);
    const NDArray a = NDArray::zeros(rank.test.runtime, key.shape, base::DType::f32, one).value();
    const NDArray b = NDArray::zeros(rank.test.runtime, key.shape, base::DType::f32, other).value();
    rank.pull(key, a);
    rank.pull(key, b);
    for (const float value : {1.0F, 3.0F}) {
      auto pull = rank.next();
      CHECK(rank.count() == 0);
      pull->slices() = {slice_of({value, value + 1}, base::DType::f32)};
      pull->end({});
    }
    CHECK(a.to_vector<float>().value() == std::vector<float>{1, 2});
    CHECK(b.to_vector<float>().value() == std::vector<float>{3, 4});
  }
}

TEST_CASE("a pull that failed, or that nobody answers, is its own error alone",
          "[weight_arrivals]") {
  for (const base::Device device : {base::Device{}, kLate}) {
    Rank rank;
    const schemas::KeyInfo key = key_of(0, 2, base::DType::f32);
    const NDArray a =
        NDArray::zeros(rank.test.runtime, key.shape, base::DType::f32, device).value();
    const NDArray b =
        NDArray::zeros(rank.test.runtime, key.shape, base::DType::f32, device).value();
    rank.pull(key, a);
    rank.next()->end(base::error(base::Errc::unavailable, "no weights now"));
    CHECK_THAT(a.wait().text(), Catch::Contains("no weights now"));
    for (const NDArray& array : {b, a}) {
      rank.pull(key, array);
      auto pull = rank.next();
      pull->slices() = {slice_of({5, 6}, base::DType::f32)};
      pull->end({});
      CHECK(array.to_vector<float>().value() == std::vector<float>{5, 6});
    }
    {
      WeightArrivals gone(rank.test.runtime);
      gone.pull(key, a, 0, [](const std::shared_ptr<WeightArrival>&) {});
    }
    CHECK(a.wait().code() == base::Errc::abandoned);
  }
}

TEST_CASE("slices stay until a device has read them, though the store is gone",
          "[weight_arrivals]") {
  tests::DelayedStream kernels, down, up;
  tests::TestRuntime test{true, {.streams = {&kernels, &down, &up}}};
  const schemas::KeyInfo key = key_of(0, 2, base::DType::f32);
  const NDArray late = NDArray::zeros(test.runtime, key.shape, base::DType::f32, kLate).value();
  base::Buffer sent = slice_of({1, 2}, base::DType::f32);
  REQUIRE(test.engine->wait_all().ok());
  up.hold();
  {
    std::promise<void> asked;
    WeightArrivals arrivals(test.runtime);
    arrivals.pull(key, late, 0, [&](const std::shared_ptr<WeightArrival>& arrival) {
      arrival->slices() = {sent};
      arrival->end({});
      asked.set_value();
    });
    asked.get_future().wait();
  }
  CHECK(sent.use_count() == 2);
  up.release();
  CHECK(late.to_vector<float>().value() == std::vector<float>{1, 2});
  REQUIRE(test.engine->wait_all().ok());
  CHECK(sent.use_count() == 1);
}

}  // namespace
}  // namespace troupe::store
