// SPDX-License-Identifier: Apache-2.0
// Optimizers: the fused kernel against the same update written as element-wise operators, to the
// bit; known values; the moving average of partial rounds.
#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

Tensor number(DType dtype, double value) {
  Tensor tensor(dtype, Shape{});
  tensor.set(0, value);
  return tensor;
}

/// The best kernel's outputs.
std::vector<Tensor> run_best(const OpTable& table, std::string_view name,
                             const std::vector<Tensor>& inputs, const Attributes& attributes) {
  const OpDef& op = table.at(name);
  const auto call = make_call(op, parse_params(op, attributes).value(), describe(inputs));
  REQUIRE(call.ok());
  const auto kernel = prepare(call.value());
  REQUIRE(kernel.ok());
  CHECK(kernel.value()->name() == "simd");
  const auto outputs = make_outputs(call.value());
  run_kernel(*kernel.value(), inputs, outputs, {});
  return outputs;
}

TEST_CASE("sgd as element-wise operators gives sgd_update's bits", "[optimizer]") {
  const OpTable table = OpTable::build();
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool clipped : {false, true}) {
      const Shape shape{20011};
      const Tensor weight = random_tensor(dtype, shape, "weight", -0.3, 0.3);
      const Tensor gradient = random_tensor(dtype, shape, "gradient", -40, 40);
      const Tensor momentum = random_tensor(dtype, shape, "momentum", -2, 2);
      const Tensor rate = number(dtype, 0.05);
      const Tensor count = number(dtype, 48);
      const auto run = [&](std::string_view op, const std::vector<Tensor>& inputs,
                           const Attributes& attributes = {}) {
        return evaluate(table, op, inputs, attributes)[0];
      };
      Tensor g = run("divide", {gradient, count});
      if (clipped) g = run("clip", {g}, {{"a_min", "-0.5"}, {"a_max", "0.5"}});
      g = run("add", {g, run("multiply_scalar", {weight}, {{"scalar", "0.0001"}})});
      const Tensor v = run("add", {run("multiply_scalar", {momentum}, {{"scalar", "0.9"}}), g});
      const Tensor w = run("subtract", {weight, run("multiply", {v, rate})});

      Attributes attributes = {{"momentum", "0.9"}, {"wd", "1e-4"}};
      if (clipped) attributes["clip_gradient"] = "0.5";
      const auto fused =
          run_best(table, "sgd_update", {weight, gradient, momentum, rate, count}, attributes);
      CHECK(fused[0].same_bits(w));
      CHECK(fused[1].same_bits(v));
    }
  }
}

TEST_CASE("many weights are updated as each of them alone", "[optimizer]") {
  const OpTable table = OpTable::build();
  const Attributes attributes = {{"momentum", "0.9"}, {"wd", "1e-3"}, {"clip_gradient", "0.75"}};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor rate = number(dtype, 0.05), count = number(dtype, 48);
    std::vector<Tensor> inputs, alone;
    const std::vector<Shape> shapes = {{3, 5}, {}, {2, 0}, {20011}, {1}};
    for (const Shape& shape : shapes) {
      const Tensor weight = random_tensor(dtype, shape, "weight", -0.3, 0.3);
      const Tensor gradient = random_tensor(dtype, shape, "gradient", -40, 40);
      const Tensor momentum = random_tensor(dtype, shape, "momentum", -2, 2);
      for (Tensor& made :
           evaluate(table, "sgd_update", {weight, gradient, momentum, rate, count}, attributes)) {
        alone.push_back(std::move(made));
      }
      inputs.insert(inputs.end(), {weight, gradient, momentum});
    }
    inputs.insert(inputs.end(), {rate, count});
    Attributes many = attributes;
    many["num_weights"] = std::to_string(shapes.size());
    const std::vector<Tensor> together = run_best(table, "multi_sgd_update", inputs, many);
    REQUIRE(together.size() == alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(together[i].same_bits(alone[i]));
  }
}

TEST_CASE("the sums of the gradient tree have a vector kernel", "[optimizer]") {
  const OpTable table = OpTable::build();
  for (const std::int64_t size : {1, 7, 16, 16385}) {
    const Tensor a = random_tensor(DType::f32, {size}, "a", -1, 1);
    const Tensor b = random_tensor(DType::f32, {size}, "b", -1, 1);
    CHECK(run_best(table, "add", {a, b}, {})[0].same_bits(evaluate(table, "add", {a, b})[0]));
  }
}

TEST_CASE("partial rounds move an average as far as one whole round", "[optimizer]") {
  const OpTable table = OpTable::build();
  const auto step = [&](const Tensor& state, double share) {
    return evaluate(
        table, "average_update",
        {state, number(DType::f64, 6.0 * 8.0), number(DType::f64, 8.0), number(DType::f64, share)},
        {{"momentum", "0.9"}})[0];
  };
  const Tensor state = number(DType::f64, 2.0);
  const double whole = step(state, 1.0).at(0);
  CHECK(whole == Approx(0.9 * 2.0 + 0.1 * 6.0));
  CHECK(step(step(state, 0.25), 0.75).at(0) == Approx(whole));
}

}  // namespace
}  // namespace troupe::ops
