// SPDX-License-Identifier: Apache-2.0
// leaky_relu's functions and silu: known values, the ends of the numbers, slopes and layouts.
#include <cmath>

#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

Tensor row_of(const std::vector<double>& values) {
  Tensor row(DType::f64, {std::int64_t(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) row.set(std::int64_t(i), values[i]);
  return row;
}

TEST_CASE("activations have PyTorch's values, to the ends of the numbers", "[activation][nan]") {
  const OpTable table = OpTable::build();
  const Tensor x = row_of({-INFINITY, -1, 0, 1, INFINITY, NAN});
  struct Known {
    const char* op;
    Attributes attributes;
    std::vector<double> values;
  };
  const std::vector<Known> all = {
      {"LeakyReLU", {}, {-INFINITY, -0.25, 0, 1, INFINITY, NAN}},
      {"LeakyReLU", {{"slope", "0.01"}}, {-INFINITY, -0.01, 0, 1, INFINITY, NAN}},
      {"leaky_relu",
       {{"act_type", "elu"}, {"slope", "1"}},
       {-1, -0.6321205588285577, 0, 1, INFINITY, NAN}},
      {"leaky_relu",
       {{"act_type", "selu"}},
       {-1.7580993408473766, -1.1113307378125625, 0, 1.0507009873554805, INFINITY, NAN}},
      {"leaky_relu",
       {{"act_type", "gelu"}},
       {NAN, -0.15865525393145707, 0, 0.8413447460685429, INFINITY, NAN}},
      {"silu", {}, {NAN, -0.2689414213699951, 0, 0.7310585786300049, INFINITY, NAN}},
  };
  for (const Known& known : all) {
    INFO(known.op << ' '
                  << (known.attributes.empty() ? "" : known.attributes.begin()->second.c_str()));
    const Tensor y = evaluate(table, known.op, {x}, known.attributes)[0];
    CHECK(distance(y, row_of(known.values)) <= 1e-15);
  }
}

TEST_CASE("gradients reach data and slopes", "[activation]") {
  const OpTable table = OpTable::build();
  Tensor data(DType::f64, {1, 2, 2}), gamma(DType::f64, {2}), dy(DType::f64, {1, 2, 2});
  const std::vector<double> values = {-2, 3, -5, 0};
  for (std::int64_t i = 0; i < 4; ++i) {
    data.set(i, values[std::size_t(i)]);
    dy.set(i, double(i + 1));
  }
  gamma.set(0, 0.5);
  gamma.set(1, -1);
  const Attributes prelu = {{"act_type", "prelu"}};
  const auto y = evaluate(table, "leaky_relu", {data, gamma}, prelu)[0];
  CHECK(y.at(0) == -1);
  CHECK(y.at(1) == 3);
  CHECK(y.at(2) == 5);
  const auto gradients = evaluate(table, "leaky_relu_backward", {dy, data, gamma}, prelu);
  const std::vector<double> wanted = {0.5, 2, -3, -4};
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(gradients[0].at(i) == wanted[std::size_t(i)]);
  }
  CHECK(gradients[1].at(0) == -2);
  CHECK(gradients[1].at(1) == -15);
}

TEST_CASE("prelu has a slope per channel unless it has one", "[activation]") {
  const OpTable table = OpTable::build();
  const auto infer = [&](const Attributes& attributes, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    return inferred(table, "LeakyReLU", attributes, std::move(inputs), std::move(outputs));
  };
  const Attributes prelu = {{"act_type", "prelu"}, {"lower_bound", "0.1"}};
  CHECK(infer(prelu, {{2, 3, 4, 4}}) == "(2, 3, 4, 4) (3,) -> (2, 3, 4, 4)");
  CHECK(infer(prelu, {{2, 3}, {1}}) == "(2, 3) (1,) -> (2, 3)");
  CHECK(infer(prelu, {}, {{2, 3, 4}}) == "(2, 3, 4) (3,) -> (2, 3, 4)");
  CHECK(infer({}, {}, {{2, 3, 4}}) == "(2, 3, 4) -> (2, 3, 4)");
  CHECK(infer(prelu, {{2, 3, 4}, {4}}) ==
        "[leaky_relu] gamma has shape (4,) where (3,) is expected");
  CHECK(infer(prelu, {{5}}) ==
        "[leaky_relu] prelu needs data of at least two axes (N, C, ...), got shape (5,)");
  CHECK(infer({{"act_type", "rrelu"}}, {{5}}) ==
        "[leaky_relu] parameter 'act_type' is 'rrelu' (allowed: leaky prelu elu selu gelu)");
  const OpDef& op = table.at("leaky_relu");
  const auto whole = make_call(op, parse_params(op, {}).value(), {{DType::i32, {2}}});
  CHECK(whole.status().text() == "[leaky_relu] dtype i32 is not a floating type");
}

TEST_CASE("the gradient reads the output where that says enough", "[activation]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("leaky_relu");
  const auto reads_output = [&](const Attributes& attributes) {
    const Params params = parse_params(op, attributes).value();
    const Tensor data = row_of({-1, 2}), ones = row_of({1, 1});
    // An output that the function never has: a gradient that follows it reads it.
    const auto first = [&](const Tensor& output) {
      Evaluator builder(table, params, {data}, {output}, {ones});
      return builder.tensor(*op.gradient(builder).value()[0]).at(0);
    };
    return first(row_of({-3, -3})) != first(row_of({4, 4}));
  };
  CHECK(reads_output({{"slope", "0.5"}}));
  CHECK(reads_output({{"act_type", "elu"}, {"slope", "0"}}));
  CHECK(reads_output({{"act_type", "selu"}}));
  CHECK_FALSE(reads_output({{"slope", "-0.5"}}));
  CHECK_FALSE(reads_output({{"act_type", "elu"}, {"slope", "-0.5"}}));
  CHECK_FALSE(reads_output({{"act_type", "gelu"}}));
}

TEST_CASE("activations run flat over blocked buffers, unless padding would not stay zero",
          "[activation][layout]") {
  const OpTable table = OpTable::build();
  const Shape shape = {2, 17, 3, 5};
  const auto blocked = [&](const char* op, std::size_t inputs, const Attributes& attributes) {
    OpCall call = free_call(table, op, std::vector(inputs, shape), attributes);
    for (TensorDesc& input : call.inputs) {
      input.layout.kind = Layout::Kind::blocked;
      input.layout.order = {0, 1, 2, 3};
      input.layout.blocks = {{1, 8}};
      input.layout = layout_for(input.layout, shape);
    }
    const auto kernel = prepare(call);
    REQUIRE(kernel.ok());
    const auto layouts = (*kernel)->output_layouts();
    return !layouts.empty() && !layouts[0].is_dense();
  };
  for (const char* type : {"leaky", "elu", "selu", "gelu"}) {
    INFO(type);
    CHECK(blocked("leaky_relu", 1, {{"act_type", type}}));
    CHECK(blocked("leaky_relu_backward", 2, {{"act_type", type}}));
  }
  CHECK(blocked("silu", 1, {}));
  CHECK(blocked("silu_backward", 2, {}));
  CHECK_FALSE(blocked("leaky_relu", 1, {{"slope", "inf"}}));
}

}  // namespace
}  // namespace troupe::ops
