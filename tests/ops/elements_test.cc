// SPDX-License-Identifier: Apache-2.0
// Element-wise vector kernels beyond the conformance test: long outputs, sums of gradients.
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

/// The outputs of an element-wise operator's kernel called `name`, of its first input's shape.
std::vector<Tensor> run_elementwise(const OpDef& op, const Params& params, const char* name,
                                    const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& into) {
  const OpCall call = make_call(op, params, describe(inputs)).value();
  for (const KernelDef& candidate : op.kernels) {
    if (candidate.name != name) continue;
    const auto kernel = prepare_candidate(candidate, call);
    REQUIRE(kernel);
    if (std::string(name) == "simd") CHECK_FALSE(kernel->name().ends_with(" in f32"));
    run_kernel(*kernel, inputs, into, {.team = 2});
    return into;
  }
  FAIL("no kernel " << name);
  return {};
}

TEST_CASE("outputs that go past the caches have the reference's bits, beside and over an input") {
  const OpTable table = OpTable::build();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Shape shape{(std::int64_t{dtype == DType::f32 ? 3 : 6} << 20) + 5};  // 12 MiB and a tail
    const Tensor a = random_tensor(dtype, shape, "a", -1, 1);
    const Tensor b = random_tensor(dtype, shape, "b", -1, 1);
    const std::vector<std::tuple<const char*, Attributes, std::vector<Tensor>>> calls = {
        {"activation", {{"act_type", "relu"}}, {a}},
        {"add", {}, {a, b}},
        {"add_n", {{"num_args", "2"}}, {a, b}}};
    for (const auto& [name, attributes, inputs] : calls) {
      INFO(name << ' ' << base::dtype_name(dtype));
      const OpDef& op = table.at(name);
      const Params params = parse_params(op, attributes).value();
      const Tensor into(dtype, shape), beside(dtype, shape);
      const Tensor expected = run_elementwise(op, params, "reference", inputs, {into})[0];
      CHECK(run_elementwise(op, params, "simd", inputs, {beside})[0].same_bits(expected));
      std::vector<Tensor> over = inputs;
      over[0] = inputs[0].clone();
      CHECK(run_elementwise(op, params, "simd", over, {over[0]})[0].same_bits(expected));
    }
  }
}

/// Every bit pattern of bf16.
Tensor all_bf16() {
  constexpr std::int64_t kPatterns = 1 << 16;
  Tensor tensor(DType::bf16, Shape{kPatterns});
  for (std::int64_t i = 0; i < kPatterns; ++i) {
    tensor.view().as<base::BF16>()[i] = base::BF16::from_bits(static_cast<std::uint16_t>(i));
  }
  return tensor;
}

TEST_CASE("vectors of bf16 are read exactly and rounded once, as base::BF16 is, NaN too") {
  const OpTable table = OpTable::build();
  const Tensor x = all_bf16();
  const std::int64_t count = x.elements();
  const base::BF16* from = x.view().as<base::BF16>();
  const auto run = [&](const char* op, const Attributes& attributes,
                       const std::vector<Tensor>& inputs) {
    const Params params = parse_params(table.at(op), attributes).value();
    const Tensor into(DType::bf16, inputs[0].shape);
    return run_elementwise(table.at(op), params, "simd", inputs, {into})[0];
  };
  const Tensor relu = run("activation", {{"act_type", "relu"}}, {x});
  // Factors whose products with them lie between two numbers, in the middle, and out of range.
  for (const float factor : {1.0F, 1.0078125F, 3.0F, -0.3359375F, 0x1p-130F, 0x1p100F}) {
    Tensor factors(DType::bf16, x.shape);
    for (std::int64_t i = 0; i < count; ++i) {
      factors.view().as<base::BF16>()[i] = base::BF16(factor);
    }
    const auto rounded = static_cast<float>(base::BF16(factor));
    const Tensor product = run("multiply", {}, {x, factors}), sum = run("add", {}, {x, factors});
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(from[i]);
      const auto check = [&](const Tensor& result, float expected) {
        const base::BF16 is = result.view().as<base::BF16>()[i], should = base::BF16(expected);
        const bool both_nan = std::isnan(expected) && std::isnan(static_cast<float>(is));
        if (is.bits() != should.bits() && !both_nan) ++wrong;
      };
      check(relu, value <= 0.0F ? 0.0F : value);
      check(product, value * rounded);
      check(sum, value + rounded);
    }
    INFO("factor " << factor);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a relu's gradient of a sum has the bits of sum and gradient one by one") {
  const OpTable table = OpTable::build();
  std::vector<Tensor> parts;
  for (const char* name : {"a", "b", "c", "d"}) {
    parts.push_back(random_tensor(DType::f32, {3, 41}, name, -1, 1));
  }
  const Tensor output = random_tensor(DType::f32, {3, 41}, "output", -1, 1);
  for (std::size_t count = 1; count <= parts.size(); ++count) {
    std::vector<Tensor> some(parts.begin(), parts.begin() + std::ptrdiff_t(count));
    const std::string number = std::to_string(count);
    const Tensor sum = evaluate(table, "add_n", some, {{"num_args", number}})[0];
    const Tensor expected =
        evaluate(table, "activation_backward", {sum, output}, {{"act_type", "relu"}})[0];
    const OpDef& op = table.at("activation_backward");
    const Params params =
        parse_params(op, {{"act_type", "relu"}, {"num_gradients", number}}).value();
    some.push_back(output);
    for (const char* kernel : {"reference", "simd"}) {
      CHECK(run_elementwise(op, params, kernel, some, {Tensor(DType::f32, {3, 41})})[0].same_bits(
          expected));
    }
  }
}

}  // namespace
}  // namespace troupe::ops
