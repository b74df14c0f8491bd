// SPDX-License-Identifier: Apache-2.0
// Known values and helpful errors of math, reduce and random operators.
#include <algorithm>
#include <cmath>

#include "ops/random/uniform.h"
#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

Tensor tensor_of(const Shape& shape, const std::vector<double>& values, DType dtype = DType::f32) {
  Tensor tensor(dtype, shape);
  REQUIRE(tensor.elements() == std::int64_t(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(std::int64_t(i), values[i]);
  return tensor;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.at(i));
  return values;
}

/// The error of inferring shapes from complete inputs.
std::string shape_error(std::string_view op, std::vector<Shape> inputs,
                        const Attributes& attributes = {}) {
  const OpTable table = OpTable::build();
  const OpDef& definition = table.at(op);
  const auto params = parse_params(definition, attributes);
  if (!params.ok()) return params.status().text();
  std::vector<Shape> outputs(definition.outputs(params.value()).size(), Shape::unknown());
  return infer_shapes(definition, params.value(), inputs, outputs).text();
}

using Numbers = std::vector<double>;

TEST_CASE("arithmetic broadcasts", "[math]") {
  const OpTable table = OpTable::build();
  const Tensor matrix = tensor_of({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor row = tensor_of({3}, {10, 20, 30});
  const Tensor column = tensor_of({2, 1}, {1, 2});
  CHECK(values_of(evaluate(table, "add", {matrix, row})[0]) == Numbers{11, 22, 33, 14, 25, 36});
  CHECK(values_of(evaluate(table, "broadcast_sub", {matrix, column})[0]) ==
        Numbers{0, 1, 2, 2, 3, 4});
  CHECK(values_of(evaluate(table, "clip", {row}, {{"a_min", "25"}, {"a_max", "15"}})[0]) ==
        Numbers{15, 15, 15});  // min(max(x, 25), 15)
  CHECK(values_of(evaluate(table, "multiply", {column, row})[0]) ==
        Numbers{10, 20, 30, 20, 40, 60});
  CHECK(values_of(evaluate(table, "_rdiv_scalar", {column}, {{"scalar", "4"}})[0]) ==
        Numbers{4, 2});
}

TEST_CASE("reductions take axes as MXNet does", "[reduce]") {
  const OpTable table = OpTable::build();
  const Tensor matrix = tensor_of({2, 3}, {1, 2, 3, 4, 5, 7});
  CHECK(values_of(evaluate(table, "sum", {matrix}, {{"axis", "0"}})[0]) == Numbers{5, 7, 10});
  CHECK(values_of(evaluate(table, "max", {matrix}, {{"axis", "-1"}})[0]) == Numbers{3, 7});
  CHECK(values_of(evaluate(table, "mean", {matrix}, {{"axis", "1"}, {"exclude", "True"}})[0]) ==
        Numbers{2.5, 3.5, 5});
  const Tensor all = evaluate(table, "sum", {matrix}, {{"keepdims", "True"}})[0];
  CHECK(all.shape == Shape{1, 1});
  CHECK(all.at(0) == 22);
}

TEST_CASE("reductions of nothing are their neutral values", "[reduce]") {
  const OpTable table = OpTable::build();
  const Tensor nothing(DType::f32, {0, 2});
  CHECK(values_of(evaluate(table, "sum", {nothing}, {{"axis", "0"}})[0]) == Numbers{0, 0});
  CHECK(std::isinf(evaluate(table, "max", {nothing}, {{"axis", "0"}})[0].at(0)));
  CHECK(std::isnan(evaluate(table, "mean", {nothing})[0].at(0)));
  const Tensor empty_product =
      evaluate(table, "dot", {Tensor(DType::f32, {2, 0}), Tensor(DType::f32, {0, 2})})[0];
  CHECK(values_of(empty_product) == Numbers{0, 0, 0, 0});
}

TEST_CASE("max hands NaN on and shares its gradient among ties", "[reduce]") {
  const OpTable table = OpTable::build();
  const Tensor data = tensor_of({2, 3}, {1, 4, 4, 2, NAN, 1});
  const Tensor out = evaluate(table, "max", {data}, {{"axis", "1"}})[0];
  CHECK(out.at(0) == 4);
  CHECK(std::isnan(out.at(1)));
  const Tensor row = tensor_of({3}, {1, 4, 4});
  const Tensor top = evaluate(table, "max", {row})[0];
  CHECK(values_of(evaluate(table, "max_backward", {tensor_of({}, {6}), row, top})[0]) ==
        Numbers{0, 3, 3});
  // It goes where the maximum came from, also where that is no number.
  const Tensor holed = tensor_of({4}, {1, NAN, 4, NAN});
  CHECK(values_of(evaluate(table, "max_backward",
                           {tensor_of({}, {6}), holed, evaluate(table, "max", {holed})[0]})[0]) ==
        Numbers{0, 3, 0, 3});
}

TEST_CASE("casts to whole numbers stop at the type's ends", "[math]") {
  const OpTable table = OpTable::build();
  const Tensor data = tensor_of({5}, {-1.9, 300, -300, NAN, 1e30});
  CHECK(values_of(evaluate(table, "cast", {data}, {{"dtype", "i8"}})[0]) ==
        Numbers{-1, 127, -128, 0, 127});
  const Tensor wide = evaluate(table, "Cast", {data}, {{"dtype", "int64"}})[0];
  CHECK(wide.memory.as<std::int64_t>()[4] == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("random values follow their counters and distribution", "[random]") {
  const OpTable table = OpTable::build();
  const auto draw = [&](std::string_view op, std::int64_t n, Attributes attributes) {
    attributes.emplace("shape", std::to_string(n));
    return evaluate(table, op, {}, attributes)[0];
  };
  const Tensor few = draw("uniform", 7, {});
  const Tensor many = draw("uniform", 40000, {});
  const auto words = base::philox(RunOptions{}.key, 1, 3, 0);
  CHECK(few.at(5) == double(base::uniform_f32(words[1])));
  double sum = 0;
  for (std::int64_t i = 0; i < many.elements(); ++i) {
    if (i < few.elements()) CHECK(many.at(i) == few.at(i));
    REQUIRE((many.at(i) >= 0 && many.at(i) < 1));
    sum += many.at(i);
  }
  CHECK(sum / 40000 == Approx(0.5).margin(0.01));
  const Tensor bell = draw("normal", 40000, {{"loc", "1"}, {"scale", "2"}});
  double mean = 0;
  double square = 0;
  for (std::int64_t i = 0; i < bell.elements(); ++i) {
    mean += bell.at(i) / 40000;
    square += bell.at(i) * bell.at(i) / 40000;
  }
  CHECK(mean == Approx(1).margin(0.05));
  CHECK(square - mean * mean == Approx(4).margin(0.15));
}

TEST_CASE("uniform takes no interval that has no length or one too long", "[random]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("uniform");
  const auto made = [&](const char* low, const char* high) {
    auto params = parse_params(op, {{"shape", "3"}, {"low", low}, {"high", high}}).value();
    return make_call(op, std::move(params), {}).status();
  };
  CHECK(made("2", "2").ok());
  CHECK(made("-1e38", "1e38").ok());
  for (const auto& [low, high] : {std::pair("3", "2"), {"-3e38", "3e38"}, {"-1e308", "1e308"}}) {
    CHECK(made(low, high).code() == base::Errc::invalid_argument);
    CHECK(made(low, high).text().find("low") != std::string::npos);
  }
}

TEST_CASE("uniform values stay below the interval's end in every type", "[random]") {
  const OpTable table = OpTable::build();
  struct Interval {
    const char *low, *high;
  };
  for (const Interval& of : {Interval{"0", "1"}, {"-1", "0"}, {"-3", "-2"}, {"0.1", "0.3"}}) {
    for (const char* dtype : {"f64", "f32", "f16", "bf16"}) {
      INFO(dtype << " in [" << of.low << ", " << of.high << ")");
      const Tensor drawn =
          evaluate(table, "uniform", {},
                   {{"shape", "40000"}, {"dtype", dtype}, {"low", of.low}, {"high", of.high}})[0];
      double largest = -10;
      for (std::int64_t i = 0; i < drawn.elements(); ++i) largest = std::max(largest, drawn.at(i));
      CHECK(largest < std::stod(of.high));
      CHECK(largest > std::stod(of.high) - 0.02);  // bf16 has 64 values from 2 to 3
    }
  }
  CHECK(uniform_last<base::BF16>(0.0F, 1.0F) == 0.99609375F);
  CHECK(uniform_last<base::F16>(0.0F, 1.0F) == 0.99951171875F);
  CHECK(uniform_last<base::F16>(0.0F, 1e6F) == 65504.0F);
  CHECK(uniform_last<base::BF16>(1.0F, 1.0001F) == 1.0F);
  CHECK(uniform_last<base::BF16>(-1.0F, 0.0F) < 0.0F);
  CHECK(uniform_last<float>(2.0F, 2.0F) == 2.0F);
}

TEST_CASE("errors of inference name operator and shapes", "[math]") {
  CHECK(shape_error("add", {{2, 3}, {4, 3}}) == "[add] shapes (2, 3) and (4, 3) do not broadcast");
  CHECK(shape_error("add_n", {{2}, {3}}, {{"num_args", "2"}}) ==
        "[add_n] shapes (2,) and (3,) contradict each other");
  CHECK(shape_error("sum", {{2, 3}}, {{"axis", "2"}}) ==
        "[sum] axis 2 is out of range for rank 2: shape (2, 3)");
  CHECK(shape_error("dot", {{2, 3}, {2, 3}}) ==
        "[dot] shapes (2, 3) and (2, 3) do not multiply (transpose_a=false, transpose_b=false)");
  CHECK(shape_error("concat", {{2, 3}, {4, 3}}, {{"num_args", "2"}}) ==
        "[concat] shapes (2, ?) and (4, ?) contradict each other");
  CHECK(shape_error("concat", {{2}, {2}}, {{"num_args", "2"}}) ==
        "[concat] axis 1 is out of range for shape (2,)");
  CHECK(shape_error("slice_axis", {{4, 3}}, {{"begin", "2"}, {"end", "5"}}) ==
        "[slice_axis] range [2, 5) does not fit axis 0 of shape (4, 3)");
  CHECK(shape_error("broadcast_like", {{2, 3}, {2, 4}}) ==
        "[broadcast_like] shape (2, 3) does not broadcast to (2, 4)");
  CHECK(shape_error("sgd_update", {{3}, {3}, {3}, {1}, {}}).find("[sgd_update] ") == 0);
  CHECK(shape_error("clip", {{3}}, {{"a_min", "0"}}) ==
        "[clip] parameter 'a_max' is required (a number)");
}

TEST_CASE("shapes are inferred backwards where they can be", "[math]") {
  const OpTable table = OpTable::build();
  const OpDef& concat = table.at("concat");
  const auto params = parse_params(concat, {{"num_args", "2"}});
  std::vector<Shape> inputs = {{2, 3}, Shape::unknown()};
  std::vector<Shape> outputs = {{2, 8}};
  REQUIRE(infer_shapes(concat, params.value(), inputs, outputs).ok());
  CHECK(inputs[1] == Shape{2, 5});
  const OpDef& exp = table.at("exp");
  inputs = {Shape{2, base::kUnknownDim}};
  outputs = {Shape{base::kUnknownDim, 8}};
  REQUIRE(infer_shapes(exp, parse_params(exp, {}).value(), inputs, outputs).ok());
  CHECK(inputs[0] == Shape{2, 8});
  CHECK(outputs[0] == Shape{2, 8});
}

TEST_CASE("the number of inputs of a variadic operator need not be written", "[math]") {
  const OpTable table = OpTable::build();
  const auto filled = with_num_args(table.at("add_n"), {}, 3);
  CHECK(filled == Attributes{{"num_args", "3"}});
  CHECK(with_num_args(table.at("add_n"), {{"num_args", "2"}}, 3).at("num_args") == "2");
  CHECK(with_num_args(table.at("add"), {}, 2).empty());
}

TEST_CASE("dtypes that do not fit are named", "[math]") {
  const OpTable table = OpTable::build();
  const OpDef& add = table.at("add");
  const Params none = parse_params(add, {}).value();
  const auto mixed = make_call(add, none, {{DType::f32, {2}}, {DType::f64, {2}}});
  CHECK(mixed.status().text() == "[add] dtypes f32 and f64 are mixed");
  const auto whole = make_call(add, none, {{DType::i32, {2}}, {DType::i32, {2}}});
  CHECK(whole.status().text() == "[add] dtype i32 is not a floating type");
  const auto halves = make_call(add, none, {{DType::f16, {2}}, {DType::bf16, {2}}});
  CHECK(halves.status().text() == "[add] dtypes f16 and bf16 are mixed");
  const auto count = make_call(add, none, {{DType::f32, {2}}});
  CHECK(count.status().text() == "[add] takes 2 inputs, got 1");
}

/// Distance of two numbers in units of the last place.
template <typename T>
double ulps(T a, T b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const T gap = std::nextafter(std::abs(b), std::numeric_limits<T>::infinity()) - std::abs(b);
  return double(std::abs(a - b)) / double(gap);
}

template <typename T>
void check_exp(const OpTable& table, DType dtype, double lowest, double highest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0, -0.0, kInfinity, -kInfinity, std::nan(""), 1e30, -1e30};
  for (int i = 0; i <= 20'000; ++i) values.push_back(lowest + (highest - lowest) * i / 20'000);
  Tensor x(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) x.set(std::int64_t(i), values[i]);
  const OpDef& op = table.at("exp");
  const auto call = make_call(op, parse_params(op, {}).value(), describe({x}));
  for (const KernelDef& candidate : op.kernels) {
    const auto kernel = candidate.prepare(call.value());
    REQUIRE(kernel.ok());
    const Tensor y = make_outputs(call.value())[0];
    run_kernel(*kernel.value(), {x}, {y}, {});
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      const T given = static_cast<T>(x.at(i));
      INFO(candidate.name << ": exp(" << given << ") = " << y.at(i));
      REQUIRE(ulps(static_cast<T>(y.at(i)), std::exp(given)) <= 2);
    }
  }
}

TEST_CASE("exp is the C library's within 2 ulp, to the ends of its range", "[math]") {
  const OpTable table = OpTable::build();
  check_exp<float>(table, DType::f32, -104, 90);
  check_exp<float>(table, DType::f32, -87.5, 87.5);  // no vector but the first meets an end
  check_exp<double>(table, DType::f64, -750, 711);
}

TEST_CASE("elementwise kernels run flat over blocked buffers", "[math]") {
  const OpTable table = OpTable::build();
  Layout blocked;
  blocked.kind = Layout::Kind::blocked;
  blocked.order = {0, 1, 2, 3};
  blocked.blocks = {{1, 8}};
  blocked.padded = {2, 8, 3, 3};
  const Tensor a = random_tensor(DType::f32, {2, 5, 3, 3}, "a", -1, 1);
  const Tensor b = random_tensor(DType::f32, {2, 5, 3, 3}, "b", -1, 1);
  for (const char* name : {"add", "multiply", "divide"}) {
    const OpDef& op = table.at(name);
    auto call = make_call(op, parse_params(op, {}).value(),
                          describe({packed(a, blocked), packed(b, blocked)}))
                    .value();
    call.outputs[0].any_layout = true;
    const auto kernel = prepare(call);
    if (op.name == "divide") {
      CHECK(kernel.status().code() == base::Errc::unimplemented);  // 0 / 0 in the padding
      continue;
    }
    REQUIRE(kernel.ok());
    REQUIRE(kernel.value()->output_layouts().at(0) == blocked);
    const Tensor out(DType::f32, a.shape, blocked);
    run_kernel(*kernel.value(), {packed(a, blocked), packed(b, blocked)}, {out}, {});
    CHECK(unpacked(out).same_bits(evaluate(table, name, {a, b})[0]));
    CHECK(padding_is_zero(out));
  }
}

TEST_CASE("a number that makes NaN of zeros keeps multiply_scalar off the padding", "[math]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("multiply_scalar");
  const auto zero_stays = [&](const std::string& scalar) {
    return op.maps_zero_to_zero(parse_params(op, {{"scalar", scalar}}).value());
  };
  CHECK(zero_stays("-2.5"));
  CHECK_FALSE(zero_stays("inf"));
  CHECK_FALSE(zero_stays("-inf"));
  CHECK_FALSE(zero_stays("1e39"));  // infinite in f32
}

}  // namespace
}  // namespace troupe::ops
