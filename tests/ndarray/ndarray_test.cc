// SPDX-License-Identifier: Apache-2.0
// Lazy arrays: arithmetic, views, copies, errors, lifetime of memory, random numbers.
#include "ndarray/ndarray.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "ndarray/invoke.h"
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
  CHECK((c * 2.0).status() == c.status());
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
  a.rebind(store, true);
  CHECK(values(a) == std::vector<float>{7, 8});
  a += 1.0;
  CHECK(values(a) == std::vector<float>{8, 9});
  CHECK(store.as<float>()[0] == 7);
  a.rebind(store, false);
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

TEST_CASE("the delayed device gives the same values and copies to and from the host") {
  tests::DelayedStream stream;
  engine::EngineOptions options;
  options.streams = {&stream};
  TestRuntime test(true, options);
  const base::Device delayed{base::DeviceKind::delayed, 0};
  const NDArray host = array(test.runtime, {3}, {1, 2, 3});
  NDArray a = host.copy(delayed);
  const NDArray b = a * 2.0 + a;
  a += b;
  CHECK(values(a) == std::vector<float>{4, 8, 12});
  CHECK(values(b.copy(base::Device{}) + host) == std::vector<float>{4, 8, 12});
  CHECK((a + host).status().text().find("delayed") != std::string::npos);
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
