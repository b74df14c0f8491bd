// SPDX-License-Identifier: Apache-2.0
// Lazy arrays: arithmetic, views, copies, errors, lifetime of memory, random numbers.
#include "ndarray/ndarray.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "ndarray/invoke.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"
#include "tests/support/test_runtime.h"

namespace troupe::ndarray {
namespace {

using base::Errc;
using base::Shape;
using tests::TestRuntime;

NDArray array(Runtime& runtime, const Shape& shape, std::vector<float> values) {
  return NDArray::from<float>(runtime, shape, values).value();
}

std::vector<float> values(const NDArray& a) {
  return a.to_vector<float>().value();
}

std::vector<float> iota(std::size_t count) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), 0.0F);
  return result;
}

TEST_CASE("arithmetic on arrays and scalars, on both engines") {
  for (bool threaded : {false, true}) {
    TestRuntime test(threaded);
    const NDArray a = array(test.runtime, {2, 2}, {1, 2, 3, 4});
    const NDArray b = array(test.runtime, {2}, {10, 20});
    CHECK(values(a + b) == std::vector<float>{11, 22, 13, 24});
    CHECK(values(b - a) == std::vector<float>{9, 18, 7, 16});
    CHECK(values(a * a) == std::vector<float>{1, 4, 9, 16});
    CHECK(values(b / a) == std::vector<float>{10, 10, 10.0F / 3, 5});
    CHECK(values(1 - a) == std::vector<float>{0, -1, -2, -3});
    CHECK(values(12 / a) == std::vector<float>{12, 6, 4, 3});
    CHECK(values(2 * a + 1) == std::vector<float>{3, 5, 7, 9});
    CHECK(values(-a) == std::vector<float>{-1, -2, -3, -4});
  }
}

TEST_CASE("in-place arithmetic goes through the array's own tag") {
  TestRuntime test;
  NDArray w = array(test.runtime, {3}, {1, 2, 3});
  const NDArray view = w;
  const NDArray g = array(test.runtime, {3}, {1, 1, 2});
  for (int step = 0; step < 100; ++step) w -= 0.5 * g;
  CHECK(values(view) == std::vector<float>{-49, -48, -97});
  w += w;
  w *= 2.0;
  CHECK(values(view) == std::vector<float>{-196, -192, -388});
  w -= array(test.runtime, {1}, {4});
  CHECK(values(view) == std::vector<float>{-200, -196, -392});
}

TEST_CASE("overlapping views are read before they are written") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {5}, {1, 2, 3, 4, 5});
  NDArray head = a.slice(0, 4);
  head += a.slice(1, 5);
  CHECK(values(a) == std::vector<float>{3, 5, 7, 9, 5});
  REQUIRE(a.slice(1, 5).copy_from(a.slice(0, 4)).ok());
  CHECK(values(a) == std::vector<float>{3, 3, 5, 7, 9});
}

TEST_CASE("a copy has the shape and dtype of its source") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {2, 3}, iota(6));
  const NDArray b = array(test.runtime, {3, 2}, iota(6));
  const base::Status status = a.copy_from(b);
  CHECK(status.code() == base::Errc::invalid_argument);
  CHECK(status.text().find("(3, 2) into f32 (2, 3)") != std::string::npos);
  CHECK(a.copy_from(NDArray::zeros(test.runtime, {2, 3}, base::DType::f64).value()).code() ==
        base::Errc::invalid_argument);
  REQUIRE(a.copy_from(b.reshape({2, 3})).ok());
  CHECK(values(a) == iota(6));
}

TEST_CASE("views share memory and variable") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {4, 3}, iota(12));
  NDArray rows = a.slice(1, 3);
  CHECK(rows.shape() == Shape{2, 3});
  CHECK(rows.variable() == a.variable());
  CHECK(values(a.at(2)) == std::vector<float>{6, 7, 8});
  CHECK(a.at(2).shape() == Shape{3});
  CHECK(a.reshape({2, 6}).at(1).shape() == Shape{6});
  rows *= 10.0;
  CHECK(values(a) == std::vector<float>{0, 1, 2, 30, 40, 50, 60, 70, 80, 9, 10, 11});
  CHECK(a.slice(3, 5).status().code() == Errc::invalid_argument);
  CHECK(a.slice(2, 1).status().code() == Errc::invalid_argument);
  CHECK(a.reshape({5, 2}).status().code() == Errc::invalid_argument);
  CHECK(values(a.slice(4, 4)).empty());
}

TEST_CASE("bad calls give failed arrays that name operator and shapes, and go on failing") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {2, 3}, iota(6));
  const NDArray b = array(test.runtime, {4}, iota(4));
  const NDArray c = a + b;
  CHECK(c.status().text().find("[add]") != std::string::npos);
  CHECK(c.status().text().find("(2, 3)") != std::string::npos);
  CHECK(NDArray(c * 2.0).status() == c.status());
  CHECK((c + a).wait() == c.status());
  CHECK((NDArray() + a).status().code() == Errc::invalid_argument);
  CHECK(call(test.runtime, "no_such_operator", {a}).status().code() == Errc::not_found);
  CHECK(call(test.runtime, "add", {a}).status().code() == Errc::invalid_argument);
  CHECK(a.to_vector<double>().status().code() == Errc::invalid_argument);
  NDArray d = a;
  d += b;
  CHECK(!d.status().ok());
  CHECK(values(a) == iota(6));
}

TEST_CASE("adding to an output that is also an input adds to its old values") {
  TestRuntime test;
  constexpr std::int64_t kSide = 96;
  std::vector<float> numbers = iota(kSide * kSide);
  for (float& number : numbers) number = number / (kSide * kSide) - 0.5F;
  const Shape square{kSide, kSide};
  const auto add = [&](std::string_view op, std::vector<NDArray> inputs, const NDArray& output,
                       const ops::Attributes& attributes) {
    const InvokeOptions options{.outputs = {output}, .mode = ops::WriteMode::add};
    const auto made = invoke(test.runtime, op, inputs, attributes, options);
    INFO(made.status().to_string());
    REQUIRE(made.ok());
  };
  const ops::Attributes dense = {{"num_hidden", std::to_string(kSide)}, {"no_bias", "True"}};
  const NDArray weight = array(test.runtime, square, numbers);
  const NDArray data = array(test.runtime, square, numbers);
  const NDArray apart = array(test.runtime, square, numbers);
  add("fully_connected", {data, weight}, apart, dense);
  add("fully_connected", {data, weight}, data, dense);
  CHECK(values(data) == values(apart));
  // Pairs that may share memory when an output is written may not when it is added to.
  const NDArray relu = array(test.runtime, square, numbers);
  const NDArray sum = array(test.runtime, square, numbers);
  add("activation", {relu}, sum, {{"act_type", "relu"}});
  add("activation", {relu}, relu, {{"act_type", "relu"}});
  CHECK(values(relu) == values(sum));
}

TEST_CASE("shapes that cannot be are errors that name shape and dtype") {
  TestRuntime test;
  const Shape huge{1073741824, 1073741824, 4};
  const Shape nine{1, 1, 1, 1, 1, 1, 1, 1, 1};
  const auto names = [](const base::Status& status, std::string_view shape,
                        std::string_view dtype) {
    INFO(status.to_string());
    return status.code() == Errc::invalid_argument &&
           status.text().find(shape) != std::string::npos &&
           status.text().find(dtype) != std::string::npos;
  };
  const NDArray zeros =
      call(test.runtime, "zeros", {}, {{"shape", "(1073741824, 1073741824, 4)"}, {"dtype", "f64"}});
  CHECK(names(zeros.status(), "(1073741824, 1073741824, 4)", "f64"));
  CHECK(names(NDArray::empty(test.runtime, huge).status(), "(1073741824, 1073741824, 4)", "f32"));
  CHECK(names(NDArray::zeros(test.runtime, nine, base::DType::u8).status(), "(9 axes)", "u8"));
  CHECK(names(NDArray::from_bytes(test.runtime, huge, base::DType::i64, {}).status(),
              "(1073741824, 1073741824, 4)", "i64"));
  const base::Buffer buffer = base::make_host_buffer(64);
  CHECK(names(NDArray::from_buffer(test.runtime, buffer, huge, base::DType::f64).status(),
              "(1073741824, 1073741824, 4)", "f64"));
  CHECK(names(NDArray::from_buffer(test.runtime, buffer, nine, base::DType::f64).status(),
              "(9 axes)", "f64"));
  const NDArray a = array(test.runtime, {1}, {5});
  CHECK(names(a.reshape(nine).status(), "(9 axes)", "f32"));
  CHECK(names(a.reshape(huge).status(), "(1073741824, 1073741824, 4)", "f32"));
  const std::int64_t many = std::int64_t{1} << 21;
  const NDArray column = NDArray::zeros(test.runtime, {many, 1}).value();
  CHECK(names((column + column.reshape({1, many})).status(), "(2097152, 2097152)", "f32"));
  CHECK(values(a + 1) == std::vector<float>{6});
}

TEST_CASE("arrays of another engine are refused by name") {
  TestRuntime test;
  TestRuntime other;
  const NDArray a = array(test.runtime, {2}, {1, 2});
  const NDArray b = array(other.runtime, {2}, {3, 4});
  CHECK((a + b).status().text() == "[add] input 1 (f32 (2,)) belongs to another engine");
  CHECK(call(other.runtime, "add", {a, a}).status().code() == Errc::invalid_argument);
  const InvokeOptions into_b{.outputs = {b}};
  CHECK(invoke(test.runtime, "exp", {{a}}, {}, into_b).status().text() ==
        "[exp] output 0 (f32 (2,)) belongs to another engine");
  CHECK(a.copy_from(b).code() == Errc::invalid_argument);
  RandomGenerator generator(other.runtime, 1);
  const InvokeOptions drawn{.generator = &generator};
  CHECK(call(test.runtime, "uniform", {}, {{"shape", "(2,)"}}, drawn).status().text() ==
        "[uniform] its generator belongs to another engine");
  CHECK(values(a + a) == std::vector<float>{2, 4});
  CHECK(values(b + b) == std::vector<float>{6, 8});
}

TEST_CASE("outputs that overlap are refused by their numbers") {
  TestRuntime test;
  const NDArray data = array(test.runtime, {2, 2}, {1, 2, 3, 4});
  const NDArray place = array(test.runtime, {6, 1}, {0, 0, 0, 0, 0, 0});
  const auto into = [&](const NDArray& first, const NDArray& second) {
    const InvokeOptions options{.outputs = {first, second}};
    return invoke(test.runtime, "split", {{data}}, {{"num_outputs", "2"}}, options).status();
  };
  CHECK(into(place.slice(4, 6), place.slice(0, 2)).ok());
  CHECK(into(place.slice(2, 4), place.slice(0, 2)).ok());
  CHECK(values(place) == std::vector<float>{2, 4, 1, 3, 1, 3});
  for (const auto& other : {place.slice(1, 3), place.slice(2, 4), place.slice(3, 5)}) {
    CHECK(into(other, place.slice(2, 4)).text() ==
          "[split] outputs 0 and 1 lie in the same memory");
  }
}

TEST_CASE("an array that outlives its engine answers with errors") {
  NDArray a;
  NDArray row;
  {
    TestRuntime test;
    // The runtime that an array was made with need not last.
    auto runtime = std::make_unique<Runtime>(test.runtime);
    a = array(*runtime, {2, 2}, {1, 2, 3, 4});
    runtime.reset();
    row = (a + 1).at(1);
    CHECK(values(row) == std::vector<float>{4, 5});
  }
  const auto ended = [](const base::Status& status) {
    INFO(status.to_string());
    return status.code() == Errc::failed_precondition &&
           status.text().find("has ended") != std::string::npos;
  };
  CHECK(ended(a.wait()));
  CHECK(ended(row.wait()));
  CHECK(ended(a.to_vector<float>().status()));
  CHECK(ended(a.clear()));
  CHECK(ended(a.copy().status()));
  CHECK(ended(a.copy_from(row)));
  CHECK(ended(a.copy_from(base::make_host_buffer(16))));
  CHECK(ended(a.rebind(base::make_host_buffer(16), false)));
  CHECK(ended((a + row).status()));
  CHECK(ended(NDArray(a * 2.0).status()));
  CHECK(ended((-a).status()));
  NDArray b = a;
  b += 1.0;
  CHECK(ended(b.status()));
  TestRuntime fresh;
  CHECK(ended(call(fresh.runtime, "exp", {a}).status()));
  CHECK(ended(array(fresh.runtime, {2}, {0, 0}).copy_from(row)));
  CHECK(a.slice(0, 1).shape() == Shape{1, 2});
}

TEST_CASE("a failed array and an empty handle have no variable") {
  TestRuntime test;
  const NDArray bad = NDArray::failed(base::error(Errc::data_loss, "lost"));
  for (const NDArray& none : {bad, NDArray()}) {
    CHECK_FALSE(none.variable());
    CHECK(test.engine->wait(none.variable()).code() == Errc::invalid_argument);
    CHECK_FALSE(none.rebind(base::make_host_buffer(4), false).ok());
    CHECK_FALSE(none.copy().status().ok());
  }
}

TEST_CASE("values of a temporary can be walked through") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {200}, iota(200));
  float sum = 0;
  for (float value : a.to_vector<float>().value()) sum += value;
  CHECK(sum == 199 * 100);
}

TEST_CASE("an error of a running operation reaches who reads, and ends with an overwrite") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {2}, {1, 2});
  const engine::Variable writes[] = {a.variable()};
  test.engine->push({"fails", {}, writes, {}, 0}, [](engine::RunContext&) {
    return base::error(Errc::data_loss, "the disk is gone");
  });
  const NDArray b = a + 1;
  CHECK(b.wait().code() == Errc::data_loss);
  CHECK(b.to_vector<float>().status().text().find("disk") != std::string::npos);
  REQUIRE(a.write(std::as_bytes(std::span<const float>(std::vector<float>{5, 6}))).ok());
  CHECK(values(a + 1) == std::vector<float>{6, 7});
}

TEST_CASE("memory returns to the pool behind the last work on it") {
  TestRuntime test;
  {
    NDArray sum = NDArray::zeros(test.runtime, {1024}).value();
    for (int i = 0; i < 200; ++i) {
      const NDArray one = call(test.runtime, "ones", {}, {{"shape", "(1024,)"}});
      sum += one;
      if (i % 10 == 0) REQUIRE(sum.wait().ok());  // the pushing runs far ahead otherwise
    }
    CHECK(values(sum) == std::vector<float>(1024, 200.0F));
  }
  REQUIRE(test.engine->wait_all().ok());
  CHECK(test.storage.statistics({}).used_bytes == 0);
  const auto hits = test.storage.statistics({}).hits;
  REQUIRE(NDArray::zeros(test.runtime, {1024}).value().wait().ok());
  CHECK(test.storage.statistics({}).hits == hits + 1);
}

TEST_CASE("a shared buffer is copied before anyone writes it") {
  TestRuntime test;
  const base::Buffer store = base::make_host_buffer(2 * sizeof(float));
  store.as<float>()[0] = 7;
  store.as<float>()[1] = 8;
  NDArray a = array(test.runtime, {2}, {1, 2});
  REQUIRE(a.rebind(store, true).ok());
  CHECK(values(a) == std::vector<float>{7, 8});
  a += 1.0;
  CHECK(values(a) == std::vector<float>{8, 9});
  CHECK(store.as<float>()[0] == 7);
  const base::Status other = a.slice(1, 2).rebind(base::make_host_buffer(sizeof(float)), false);
  CHECK(other.code() == base::Errc::invalid_argument);
  CHECK_THAT(other.text(), Catch::Contains("4 bytes of cpu:0") && Catch::Contains("has 8 of"));
  REQUIRE(a.rebind(store, false).ok());
  NDArray second = a.slice(1, 2);
  second += 1.0;
  CHECK(values(a) == std::vector<float>{7, 9});
  CHECK(store.as<float>()[1] == 9);
}

TEST_CASE("random numbers follow from seed and order of calls alone") {
  std::vector<float> first;
  for (bool threaded : {false, true, true}) {
    TestRuntime test(threaded);
    RandomGenerator generator(test.runtime, 7);
    InvokeOptions options;
    options.generator = &generator;
    NDArray sum = NDArray::zeros(test.runtime, {4, 5}).value();
    std::vector<NDArray> draws;
    for (int i = 0; i < 3; ++i) {
      draws.push_back(call(test.runtime, "uniform", {}, {{"shape", "(4, 5)"}}, options));
      sum += draws.back() * static_cast<double>(i + 1);
    }
    CHECK(values(draws[0]) != values(draws[1]));
    if (first.empty()) first = values(sum);
    CHECK(values(sum) == first);
  }
  TestRuntime test;
  CHECK(call(test.runtime, "uniform", {}, {{"shape", "(2,)"}}).status().code() ==
        Errc::invalid_argument);
}

TEST_CASE("a call that is skipped leaves its generator as it was") {
  const auto drawn = [](bool skipped) {
    TestRuntime test;
    RandomGenerator generator(test.runtime, 7);
    const InvokeOptions options{.generator = &generator};
    if (skipped) {
      const NDArray bad = NDArray::zeros(test.runtime, {2}).value();
      const engine::Variable writes[] = {bad.variable()};
      test.runtime.engine.push({"fail", {}, writes}, [](engine::RunContext&) {
        return base::error(Errc::data_loss, "lost");
      });
      CHECK_FALSE(call(test.runtime, "dropout", {bad}, {{"p", "0.5"}}, options).wait().ok());
    }
    return values(call(test.runtime, "uniform", {}, {{"shape", "(3,)"}}, options));
  };
  CHECK(drawn(true) == drawn(false));
}

TEST_CASE("adding to no given array adds to zeros") {
  TestRuntime test;
  const NDArray x = array(test.runtime, {2}, {-1, 2});
  {
    const NDArray used = array(test.runtime, {2}, {5, 6});
  }  // whose memory the pool may give again
  const NDArray sum =
      call(test.runtime, "activation", {x}, {{"act_type", "relu"}}, {.mode = ops::WriteMode::add});
  CHECK(values(sum) == std::vector<float>{0, 2});
}

TEST_CASE("printing waits and shortens") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {2, 2}, {1, 2.5, -3, 4});
  CHECK(a.to_string() == "[[1, 2.5],\n [-3, 4]]\n<f32 (2, 2) on cpu:0>");
  const NDArray b = array(test.runtime, {9}, iota(9));
  CHECK(b.to_string() == "[0, 1, 2, ..., 6, 7, 8]\n<f32 (9,) on cpu:0>");
  CHECK(NDArray().to_string() == "<no array>");
  CHECK(NDArray::zeros(test.runtime, {}, base::DType::i64).value().to_string() ==
        "0\n<i64 () on cpu:0>");
}

/// A runtime with a device whose work is late, on a stream of its own for each of `streams` lanes.
struct DelayedRuntime {
  explicit DelayedRuntime(bool threaded, std::size_t streams = 2, bool held = false) {
    for (std::size_t i = 0; i < streams; ++i) {
      owned.push_back(std::make_unique<tests::DelayedStream>(
          tests::DelayedStreamOptions{.device = device, .held = held}));
      options.streams.push_back(owned.back().get());
    }
    test = std::make_unique<TestRuntime>(threaded, options);
  }

  const base::Device device{base::DeviceKind::delayed, 0};
  std::vector<std::unique_ptr<tests::DelayedStream>> owned;
  engine::EngineOptions options;
  std::unique_ptr<TestRuntime> test;  // last: its engine waits for the streams' work
};

TEST_CASE("the delayed device gives the same values and copies to and from the host") {
  const bool threaded = GENERATE(true, false);
  const std::size_t streams = GENERATE(1, 2, 3);
  DelayedRuntime late(threaded, streams);
  Runtime& runtime = late.test->runtime;
  const NDArray host = array(runtime, {3}, {1, 2, 3});
  NDArray a = host.copy(late.device);
  const NDArray b = a * 2.0 + a;
  a += b;
  CHECK(values(a) == std::vector<float>{4, 8, 12});
  CHECK(values(b.copy(base::Device{}) + host) == std::vector<float>{4, 8, 12});
  CHECK((a + host).status().text().find("delayed") != std::string::npos);

  const std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const NDArray c = NDArray::from<float>(runtime, {3, 2}, std::span(numbers), late.device).value();
  CHECK(c.device() == late.device);
  CHECK(values(c) == numbers);
  const NDArray d = c.copy(late.device);
  REQUIRE(d.slice(1, 3).copy_from(d.slice(0, 2)).ok());  // they overlap
  CHECK(values(d) == std::vector<float>{1, 2, 1, 2, 3, 4});
  REQUIRE(d.slice(0, 2).copy_from(d.slice(1, 3)).ok());
  CHECK(values(d) == std::vector<float>{1, 2, 3, 4, 3, 4});
  CHECK(values(NDArray::zeros(runtime, {2, 2}, base::DType::f32, late.device).value()) ==
        std::vector<float>(4));
  REQUIRE(c.at(1).clear().ok());  // a part: the other rows stay
  CHECK(values(c) == std::vector<float>{1, 2, 0, 0, 5, 6});
  const std::vector<float> row{7, 8};
  REQUIRE(c.at(0).write(std::as_bytes(std::span(row))).ok());
  CHECK(values(c) == std::vector<float>{7, 8, 0, 0, 5, 6});
  REQUIRE(c.slice(1, 3).copy_from(c.slice(0, 2).copy()).ok());
  CHECK(values(c) == std::vector<float>{7, 8, 7, 8, 0, 0});
  CHECK(values(NDArray::zeros(runtime, {0, 2}, base::DType::f32, late.device).value()).empty());
  CHECK(NDArray::from_bytes(runtime, {2}, base::DType::f32, {}, late.device).status().code() ==
        base::Errc::invalid_argument);
  CHECK(c.to_string() == "[[7, 8],\n [7, 8],\n [0, 0]]\n<f32 (3, 2) on delayed:0>");
}

TEST_CASE("bytes of the host live until a late copy has read them") {
  DelayedRuntime late(true, 2, true);
  Runtime& runtime = late.test->runtime;
  NDArray a = NDArray::empty(runtime, {4}, base::DType::f32, late.device).value();
  std::atomic<bool> gone = false;
  auto owned = std::make_unique<std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  auto* data = reinterpret_cast<std::byte*>(owned->data());
  base::Buffer bytes(data, 16, {}, [&gone, held = std::shared_ptr(std::move(owned))]() mutable {
    std::fill(held->begin(), held->end(), -1.0F);
    gone = true;
  });
  REQUIRE(a.copy_from(std::exchange(bytes, {})).ok());
  CHECK_FALSE(gone);
  for (const auto& stream : late.owned) stream->release();
  CHECK(values(a) == std::vector<float>{1, 2, 3, 4});
  REQUIRE(runtime.engine.wait_all().ok());
  CHECK(gone);
}

TEST_CASE("a shared buffer lives until late readers of it are done") {
  const bool content = GENERATE(true, false);
  DelayedRuntime late(true);
  Runtime& runtime = late.test->runtime;
  std::vector<float> numbers{1, 2, 3, 4};
  std::atomic<bool> gone = false;
  base::Buffer shared(reinterpret_cast<std::byte*>(numbers.data()), 16, late.device,
                      [&numbers, &gone] {
                        std::fill(numbers.begin(), numbers.end(), -1.0F);
                        gone = true;
                      });
  NDArray a = NDArray::from_buffer(runtime, std::exchange(shared, {}), {4}, base::DType::f32, true);
  for (const auto& stream : late.owned) stream->hold();
  const NDArray doubled = a * 2.0;
  if (content) {
    a += 1.0;
  } else {
    REQUIRE(a.clear().ok());
  }
  CHECK_FALSE(gone);
  for (const auto& stream : late.owned) stream->release();
  CHECK(values(doubled) == std::vector<float>{2, 4, 6, 8});
  CHECK(values(a) == (content ? std::vector<float>{2, 3, 4, 5} : std::vector<float>(4)));
  REQUIRE(runtime.engine.wait_all().ok());
  CHECK(gone);
}

TEST_CASE("a number beside an array does not prepare another kernel") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {3}, {1, 2, 4});
  NDArray sum = array(test.runtime, {3}, {0, 0, 0});
  for (int i = 1; i <= 100; ++i) {
    const float x = 0.1F * static_cast<float>(i);
    CHECK(values(a * x) == std::vector<float>{1 * x, 2 * x, 4 * x});
    CHECK(values(x / a) == std::vector<float>{x, x / 2, x / 4});
    CHECK(values(a - x) == std::vector<float>{1 - x, 2 - x, 4 - x});
    sum += x;
  }
  CHECK(test.kernels.misses() == 4);
  CHECK(test.kernels.size() == 4);
  CHECK(
      call(test.runtime, "multiply_scalar", {a}, {{"scalar", "0.1"}}).to_vector<float>().value() ==
      values(a * 0.1));
  const NDArray whole = NDArray::zeros(test.runtime, {2}, base::DType::i64).value();
  CHECK(NDArray(whole * 2.0).status().text() == "[multiply] its number: no kernel for dtype i64");
}

TEST_CASE("a multiple is added in one pass, with the bits of two") {
  for (const bool threaded : {false, true}) {
    TestRuntime test(threaded);
    const std::vector<float> first = {1.1F, -3.3F, 1e30F, NAN, 0.1F, 7};
    const std::vector<float> second = {0.3F, 1e-7F, 1e30F, 1, INFINITY, -0.7F};
    for (const double factor : {0.1, -3.0, 0.0, 1e300}) {
      const NDArray g = array(test.runtime, {2, 3}, second);
      NDArray sum = array(test.runtime, {2, 3}, first), difference = sum.copy();
      const NDArray product = g * factor;
      const auto same = [&](const NDArray& a, const NDArray& b) {
        const std::vector<float> x = values(a), y = values(b);
        return std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
      };
      const NDArray expected_sum = sum + product, expected_difference = difference - product;
      sum += factor * g;
      difference -= g * factor;
      CHECK(same(sum, expected_sum));
      CHECK(same(difference, expected_difference));
    }
    NDArray a = array(test.runtime, {2, 3}, iota(6));
    const NDArray row = array(test.runtime, {3}, iota(3));
    a -= 2.0 * row;  // another shape
    CHECK(values(a) == std::vector<float>{0, -1, -2, 3, 2, 1});
    a += 0.5 * a;
    CHECK(values(a) == std::vector<float>{0, -1.5, -3, 4.5, 3, 1.5});
    NDArray upper = a.reshape({6}).slice(1, 6);
    upper -= 1.0 * a.reshape({6}).slice(0, 5);  // overlaps
    CHECK(values(a) == std::vector<float>{0, -1.5, -1.5, 7.5, -1.5, -1.5});
    NDArray failed = a.copy();
    failed -= 2.0 * (row + array(test.runtime, {4}, iota(4)));
    CHECK(failed.status().text().find("[add]") != std::string::npos);
    NDArray empty = a.copy();
    empty += 2.0 * NDArray();
    CHECK(empty.status().code() == Errc::invalid_argument);
    NDArray whole = NDArray::zeros(test.runtime, {2}, base::DType::i64).value();
    whole += 2.0 * whole;
    CHECK(whole.status().text() == "[add_scaled] its number: no kernel for dtype i64");
  }
}

TEST_CASE("hidden outputs are written where visible ones are added to") {
  TestRuntime test;
  const NDArray data = array(test.runtime, {1, 1, 2, 2}, {1, 4, 3, 2});
  const NDArray sum = array(test.runtime, {1, 1, 1, 1}, {10});
  const ops::Attributes pool = {{"kernel", "(2, 2)"}, {"pool_type", "max"}};
  const NDArray added =
      call(test.runtime, "pooling", {data}, pool, {.outputs = {sum}, .mode = ops::WriteMode::add});
  REQUIRE(added.status().ok());
  CHECK(values(sum) == std::vector<float>{14});
}

TEST_CASE("a kernel that was prepared for 0 does not serve -0") {
  TestRuntime test;
  const NDArray one = array(test.runtime, {1}, {1});
  const auto over = [&](const std::string& scalar) {
    return values(call(test.runtime, "divide_scalar", {one}, {{"scalar", scalar}})).at(0);
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(over("0") == infinity);
  CHECK(over("-0") == -infinity);
  CHECK(over("0.0") == infinity);
  CHECK(test.kernels.misses() == 2);
}

TEST_CASE("prepared kernels are kept, bounded") {
  TestRuntime test;
  const NDArray a = array(test.runtime, {3}, {1, 2, 3});
  for (int i = 0; i < 10; ++i) REQUIRE((a + a).wait().ok());
  CHECK(test.kernels.misses() == 1);
  CHECK(test.kernels.hits() == 9);
  ndarray::PreparedKernels small(2);
  const ops::OpDef& op = tests::test_operators().at("square");
  for (std::int64_t n = 1; n <= 5; ++n) {
    ops::OpCall call = ops::make_call(op, ops::parse_params(op, {}).value(),
                                      {{base::DType::f32, Shape{n}, {}, false}})
                           .value();
    REQUIRE(small.get(call).ok());
    CHECK(small.size() <= 2);
  }
}

}  // namespace
}  // namespace troupe::ndarray
