// SPDX-License-Identifier: Apache-2.0
// Own kernels for GPUs with values that no sample has: NaN, infinities, ties, labels that are no
// class. What the reference makes of them, they make, too.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor tensor_of(const Shape& shape, const std::vector<double>& values, DType dtype = DType::f32) {
  Tensor tensor(dtype, shape);
  REQUIRE(std::size_t(tensor.elements()) == values.size());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, values[std::size_t(i)]);
  return tensor;
}

/// Outputs of the operator's kernel for GPUs.
std::vector<Tensor> on_device(const OpTable& table, const char* name,
                              const std::vector<Tensor>& inputs, const Attributes& attributes) {
  const OpDef& op = table.at(name);
  OpCall call = make_call(op, parse_params(op, attributes).value(), describe(inputs)).value();
  call.device = {base::DeviceKind::cuda, 0};
  const auto kernel = prepare(call);
  INFO(kernel.status().to_string());
  REQUIRE(kernel.ok());
  const auto outputs = make_outputs(call);
  run_kernel(**kernel, inputs, outputs, {});
  return outputs;
}

void check_alike(const OpTable& table, const char* name, const std::vector<Tensor>& inputs,
                 const Attributes& attributes = {}) {
  const auto expected = evaluate(table, name, inputs, attributes);
  const auto outputs = on_device(table, name, inputs, attributes);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    INFO(name << ", output " << o);
    CHECK(distance(outputs[o], expected[o]) <= 1e-5);
  }
}

/// Rows of five: plain, NaN before, NaN behind, both infinities, -inf alone, ties, -inf among them.
Tensor rows() {
  return tensor_of({7, 5}, {1,          -2,         3,          0.5,        2,           //
                            kNan,       1,          2,          3,          4,           //
                            1,          2,          kNan,       4,          3,           //
                            1,          kInfinity,  2,          -kInfinity, 3,           //
                            -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity,  //
                            2,          5,          5,          1,          5,           //
                            -kInfinity, 1,          -kInfinity, 2,          0});
}

TEST_CASE("NaN, infinities and ties in rows", "[device_values]") {
  const OpTable table = OpTable::build();
  const Tensor data = rows();
  for (const char* name : {"sum", "mean", "max"}) {
    check_alike(table, name, {data}, {{"axis", "1"}});
    check_alike(table, name, {data}, {{"axis", "0"}});
    check_alike(table, name, {Tensor(DType::f32, {0, 3})}, {{"axis", "0"}});
  }
  for (const char* name : {"softmax", "log_softmax"}) {
    check_alike(table, name, {data});
    check_alike(table, name, {data}, {{"axis", "0"}});
  }
  for (const double label : {0, 1, 2, 3, 4}) {
    const Tensor labels = tensor_of({7}, std::vector<double>(7, label));
    check_alike(table, "accuracy_count", {data, labels});
    check_alike(table, "cross_entropy_sum", {data, labels});
    check_alike(table, "softmax_output_backward", {data, labels});
    check_alike(table, "softmax_cross_entropy_backward", {tensor_of({1}, {2}), data, labels});
  }
}

TEST_CASE("NaN and infinities in rows that are read by packs", "[device_values]") {
  const OpTable table = OpTable::build();
  constexpr std::int64_t kRow = 16;
  const std::vector<std::vector<double>> specials = {
      {},
      std::vector<double>(8, -kInfinity),   // the first packs
      std::vector<double>(16, -kInfinity),  // all
      {-kInfinity, kNan, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity},
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, kInfinity},
      {kInfinity},
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, kNan},
      {-kInfinity, 1, -kInfinity, 2, -kInfinity, -kInfinity, -kInfinity, -kInfinity, 1,
       -kInfinity}};
  std::vector<double> values;
  for (const auto& special : specials) {
    for (std::int64_t i = 0; i < kRow; ++i) {
      const bool given = i < std::int64_t(special.size());
      values.push_back(given ? special[std::size_t(i)] : double(i % 5) - 2);
    }
  }
  const Shape shape{std::int64_t(specials.size()), kRow};
  const Tensor data = tensor_of(shape, values);
  for (const char* name : {"softmax", "log_softmax"}) check_alike(table, name, {data});
  for (const char* name : {"sum", "mean", "max"}) {
    check_alike(table, name, {data}, {{"axis", "1"}});
    check_alike(table, name, {data}, {{"axis", "0"}});
  }
}

TEST_CASE("a label that is no class gives NaN, one that is ignored nothing", "[device_values]") {
  const OpTable table = OpTable::build();
  const Tensor data = tensor_of({3, 2}, {1, 2, 3, 4, 5, 7});
  const Tensor head = tensor_of({1}, {1});
  for (const double label : {-1.0, 2.0, 0.5, -0.5, kNan, kInfinity}) {
    INFO("label " << label);
    const Tensor labels = tensor_of({3}, {1, label, 0});
    for (const char* name : {"softmax_output_backward", "softmax_cross_entropy_backward"}) {
      std::vector<Tensor> inputs = {data, labels};
      if (std::string(name) != "softmax_output_backward") inputs.insert(inputs.begin(), head);
      const Tensor gradient = on_device(table, name, inputs, {}).front();
      for (std::int64_t i = 0; i < gradient.elements(); ++i) {
        CHECK(std::isnan(gradient.at(i)) == (i / 2 == 1));
      }
    }
    for (const char* name : {"softmax_cross_entropy", "accuracy_count", "cross_entropy_sum"}) {
      CHECK(std::isnan(on_device(table, name, {data, labels}, {}).front().at(0)));
    }
  }
  const Attributes ignored = {{"use_ignore", "True"}, {"ignore_label", "-1"}};
  const Tensor labels = tensor_of({3}, {1, -1, 0});
  for (const char* name : {"softmax_output_backward", "softmax_cross_entropy", "accuracy_count",
                           "cross_entropy_sum"}) {
    check_alike(table, name, {data, labels}, ignored);
  }
  for (const DType dtype : {DType::f64, DType::i64, DType::i32, DType::u8}) {
    check_alike(table, "softmax_output_backward",
                {data, converted(tensor_of({3}, {1, 1, 0}), dtype)});
  }
}

TEST_CASE("batch_norm of one place, of equal data and of too large distances", "[device_values]") {
  const OpTable table = OpTable::build();
  const auto vector = [](double value) { return tensor_of({2}, {value, value}); };
  const auto check = [&](const Tensor& data) {
    const Attributes attributes = {{"fix_gamma", "False"}, {"act_type", "relu"}};
    check_alike(table, "batch_norm", {data, vector(2), vector(1), vector(0), vector(1)},
                attributes);
    check_alike(table, "batch_norm_backward",
                {data, data, vector(2), vector(0.5), vector(1), vector(1)}, attributes);
  };
  check(tensor_of({1, 2}, {3, 4}));
  check(tensor_of({3, 2}, {3, 4, 3, 4, 3, 4}));
  check(tensor_of({2, 2}, {1e30, 1, -1e30, 2}));
  check(tensor_of({2, 2}, {kNan, 1, 1, 2}));
  // The mean of what is infinite is infinite, that of finite numbers is finite.
  for (const std::vector<double>& values : std::vector<std::vector<double>>{
           {kInfinity, 3e38, 1, -3e38},
           {1, 1, -kInfinity, 2},
           {3e38, 3e38, 1, 3e38},
           std::vector<double>(70, 1e38)}) {  // so many that a thread takes several at once
    const Tensor data = tensor_of({std::int64_t(values.size()) / 2, 2}, values);
    const auto inputs = {data, vector(2), vector(1), vector(0), vector(1)};
    const auto expected = evaluate(table, "batch_norm", inputs, {});
    const auto outputs = on_device(table, "batch_norm", inputs, {});
    for (std::int64_t channel = 0; channel < 2; ++channel) {
      const double mean = outputs[1].at(channel), right = expected[1].at(channel);
      INFO("mean " << mean << ", expected " << right);
      CHECK((mean == right || std::abs(mean - right) <= 1e-5 * std::abs(right)));
    }
  }
}

TEST_CASE("batch_norm with a variance that f16 does not hold is NaN", "[device_values]") {
  const OpTable table = OpTable::build();
  const auto vector = [](double value) { return tensor_of({2}, {value, 1}, DType::f16); };
  const Tensor data = tensor_of({4, 2}, {300, 1, -300, 2, 300, 3, -300, 4}, DType::f16);
  const auto outputs =
      on_device(table, "batch_norm", {data, vector(2), vector(1), vector(0), vector(1)}, {});
  for (std::int64_t i = 0; i < 8; ++i) CHECK(std::isnan(outputs[0].at(i)) == (i % 2 == 0));
  CHECK(std::isnan(outputs[2].at(0)));
  CHECK(outputs[2].at(1) == 1.25);
}

}  // namespace
}  // namespace troupe::ops
