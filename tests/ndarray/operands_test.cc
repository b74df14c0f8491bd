// SPDX-License-Identifier: Apache-2.0
// Slices that begin where wide loads cannot get memory of their own. That of overlapping operands
// is tested by the calls of ndarray_test.cc. Not run on GPUs where there is none.
#include "ndarray/operands.h"

#include <numeric>
#include <vector>

#include "gpu/inventory.h"
#include "gpu/stream.h"
#include "ndarray/invoke.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::ndarray {
namespace {

using base::Shape;
using tests::TestRuntime;

/// x + y of four numbers.
ops::OpCall addition(ops::WriteMode mode = ops::WriteMode::write) {
  const ops::OpDef& op = tests::test_operators().at("add");
  const ops::TensorDesc tensor{base::DType::f32, Shape{4}, {}, false};
  ops::OpCall call =
      ops::make_call(op, ops::parse_params(op, {}).value(), {tensor, tensor}).value();
  call.modes = {mode};
  return call;
}

/// 0, 1, 2 and so on.
NDArray numbers(Runtime& runtime, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  return NDArray::from<float>(runtime, Shape{count}, values).value();
}

std::vector<float> values(const NDArray& array) {
  return array.to_vector<float>().value();
}

TEST_CASE("slices at odd addresses are copied for kernels that load wide") {
  TestRuntime test;
  const NDArray x = numbers(test.runtime, 12), y = numbers(test.runtime, 12),
                z = numbers(test.runtime, 12);
  const NDArray odd = x.slice(1, 5), even = y.slice(4, 8), wanted = z.slice(3, 7);
  std::vector<NDArray> inputs = {odd, even}, outputs = {wanted};
  const auto unmoved = separate(test.runtime, addition(), false, {inputs, outputs}).value();
  CHECK(unmoved.empty());
  CHECK((inputs[0].same_memory(odd) && outputs[0].same_memory(wanted)));

  const auto moved = separate(test.runtime, addition(), true, {inputs, outputs}).value();
  CHECK(!(inputs[0].variable() == x.variable()));
  CHECK(inputs[0].offset() == 0);
  CHECK(values(inputs[0]) == std::vector<float>{1, 2, 3, 4});
  CHECK(inputs[1].same_memory(even));
  REQUIRE(moved.size() == 1);
  CHECK((moved[0].first.same_memory(outputs[0]) && moved[0].second.same_memory(wanted)));
  CHECK(outputs[0].offset() == 0);
  CHECK(!(outputs[0].variable() == z.variable()));
}

TEST_CASE("what is added to a slice at an odd address is added to its old values") {
  TestRuntime test;
  const NDArray x = numbers(test.runtime, 4), z = numbers(test.runtime, 12);
  std::vector<NDArray> inputs = {x, x}, outputs = {z.slice(3, 7)};
  const auto moved =
      separate(test.runtime, addition(ops::WriteMode::add), true, {inputs, outputs}).value();
  REQUIRE(moved.size() == 1);
  CHECK(values(outputs[0]) == std::vector<float>{3, 4, 5, 6});
}

TEST_CASE("a slice that is read at an odd address may be written where it lies") {
  TestRuntime test;
  const NDArray x = numbers(test.runtime, 12), even = x.slice(4, 8);
  std::vector<NDArray> inputs = {x.slice(1, 5), x.slice(5, 9)}, outputs = {even};
  const auto moved = separate(test.runtime, addition(), true, {inputs, outputs}).value();
  CHECK(moved.empty());
  CHECK(outputs[0].same_memory(even));
  CHECK(values(inputs[1]) == std::vector<float>{5, 6, 7, 8});
}

TEST_CASE("on a GPU a product of slices has the bits of the same numbers elsewhere",
          "[gpu][device]") {
  constexpr base::Device kFirstGpu{base::DeviceKind::cuda, 0};
  if (const base::Status status = gpu::check_device(kFirstGpu); !status.ok()) {
    WARN("skipped: " << status.text());
    return;
  }
  const auto stream = gpu::make_stream(kFirstGpu, gpu::StreamPriority::normal).value();
  TestRuntime test(true, {.streams = {stream.get()}});
  const NDArray all = numbers(test.runtime, 1 + 64 * 64).copy(kFirstGpu) * (1.0 / 4096);
  const NDArray odd = all.slice(1, 1 + 64 * 64).reshape({64, 64});
  const NDArray expected = call(test.runtime, "dot", {odd.copy(), odd.copy()});
  REQUIRE(expected.wait().ok());
  CHECK(values(call(test.runtime, "dot", {odd, odd})) == values(expected));
  const NDArray room =
      NDArray::zeros(test.runtime, {1 + 64 * 64}, base::DType::f32, kFirstGpu).value();
  const NDArray place = room.slice(1, 1 + 64 * 64).reshape({64, 64});
  REQUIRE(call(test.runtime, "dot", {odd, odd}, {}, {.outputs = {place}}).wait().ok());
  CHECK(values(place) == values(expected));
}

}  // namespace
}  // namespace troupe::ndarray
