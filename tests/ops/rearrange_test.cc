// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: split, transpose, expand_dims, pad, upsampling. Known values,
// shapes in both directions, and errors. And lrn's shapes.
#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

using Numbers = std::vector<double>;

/// 0, 1, 2, ...
Tensor counted(const Shape& shape) {
  Tensor tensor(DType::f32, shape);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, double(i));
  return tensor;
}

Numbers values_of(const Tensor& tensor) {
  Numbers values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.at(i));
  return values;
}

TEST_CASE("split cuts an axis into equal parts", "[split]") {
  const OpTable table = OpTable::build();
  const auto parts = evaluate(table, "SliceChannel", {counted({2, 4})}, {{"num_outputs", "2"}});
  REQUIRE(parts.size() == 2);
  CHECK(values_of(parts[0]) == Numbers{0, 1, 4, 5});
  CHECK(values_of(parts[1]) == Numbers{2, 3, 6, 7});
  const auto rows = evaluate(table, "split", {counted({2, 2})},
                             {{"num_outputs", "2"}, {"axis", "0"}, {"squeeze_axis", "True"}});
  CHECK(rows[1].shape == Shape{2});
  CHECK(values_of(rows[1]) == Numbers{2, 3});

  const auto infer = [&](const Attributes& attributes, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    return inferred(table, "split", attributes, std::move(inputs), std::move(outputs));
  };
  const Attributes three = {{"num_outputs", "3"}};
  const Attributes squeezed = {{"num_outputs", "3"}, {"squeeze_axis", "1"}};
  const Shape unknown = Shape::unknown();
  CHECK(infer(three, {{2, 6, -1}}) == "(2, 6, ?) -> (2, 2, ?) (2, 2, ?) (2, 2, ?)");
  CHECK(infer(three, {}, {unknown, {-1, 2, 5}, {4, -1, -1}}) ==
        "(4, 6, 5) -> (4, 2, 5) (4, 2, 5) (4, 2, 5)");
  CHECK(infer(squeezed, {}, {unknown, {4, 5}, unknown}) == "(4, 3, 5) -> (4, 5) (4, 5) (4, 5)");
  CHECK(infer(three, {{2, 0}}) == "(2, 0) -> (2, 0) (2, 0) (2, 0)");
  CHECK(infer(three, {{2, 4}}) == "[split] axis 1 of shape (2, 4) does not make 3 parts");
  CHECK(infer(squeezed, {{2, 6}}) ==
        "[split] axis 1 of shape (2, 6) does not make 3 parts of extent 1");
  CHECK(infer(three, {{6}}) == "[split] axis 1 is out of range for shape (6,)");
  CHECK(infer(three, {{3, 6}}, {{3, 1}}) ==
        "[split] shapes (3, 1) and (3, 2) contradict each other");
  CHECK(infer({{"num_outputs", "0"}}, {{2, 4}}) ==
        "[split] parameter 'num_outputs' is '0' (allowed: 1 to 256)");
  CHECK(infer(three, {}, {{1, std::int64_t{1} << 62}}) ==
        "[split] 3 parts of shape (1, 4611686018427387904) are too large");
  CHECK(infer(squeezed, {}, {{1, 1, 1, 1, 1, 1, 1, 1}}) ==
        "[split] parts of shape (1, 1, 1, 1, 1, 1, 1, 1) have no axis to spare");
}

TEST_CASE("parts that nobody uses have a gradient of zeros", "[split]") {
  /// Knows the gradient of output 1 only.
  class Half final : public GradientBuilder {
   public:
    explicit Half(Evaluator& inner) : inner_(inner) {}
    std::vector<Value> add(std::string_view op, std::vector<Value> inputs,
                           const Attributes& attributes) override {
      return inner_.add(op, std::move(inputs), attributes);
    }
    const Params& params() const override { return inner_.params(); }
    int input_count() const override { return inner_.input_count(); }
    Value input(int index) override { return inner_.input(index); }
    Value output(int index) override { return inner_.output(index); }
    std::optional<Value> output_gradient(int index) override {
      if (index == 0) return std::nullopt;
      return inner_.output_gradient(index);
    }
    bool wanted(int) const override { return true; }

   private:
    Evaluator& inner_;
  };
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("split");
  const Params params = parse_params(op, {{"num_outputs", "2"}}).value();
  const std::vector<Tensor> inputs = {counted({1, 4})}, heads = {counted({1, 2}), counted({1, 2})};
  Evaluator evaluator(table, params, inputs, evaluate(op, params, inputs), heads);
  Half half(evaluator);
  const auto gradients = op.gradient(half);
  REQUIRE(gradients.ok());
  CHECK(values_of(evaluator.tensor(*gradients.value()[0])) == Numbers{0, 0, 0, 1});
}

TEST_CASE("transpose orders axes", "[transpose]") {
  const OpTable table = OpTable::build();
  CHECK(values_of(evaluate(table, "transpose", {counted({2, 3})})[0]) == Numbers{0, 3, 1, 4, 2, 5});
  const Tensor cube = counted({2, 3, 4});
  const Tensor turned = evaluate(table, "transpose", {cube}, {{"axes", "(1, -1, 0)"}})[0];
  REQUIRE(turned.shape == Shape{3, 4, 2});
  for (std::int64_t i = 0; i < 24; ++i) {
    const std::int64_t a = i / 8, b = i / 2 % 4, c = i % 2;
    CHECK(turned.at(i) == cube.at(c * 12 + a * 4 + b));
  }
  const Tensor scalar = counted({});
  CHECK(evaluate(table, "transpose", {scalar})[0].shape == Shape{});
  CHECK(evaluate(table, "transpose", {counted({3, 0})})[0].shape == Shape{0, 3});

  const auto infer = [&](const char* axes, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    return inferred(table, "transpose", {{"axes", axes}}, std::move(inputs), std::move(outputs));
  };
  CHECK(infer("(0, 2, 1)", {{2, -1, 4}}, {{-1, 4, 3}}) == "(2, 3, 4) -> (2, 4, 3)");
  CHECK(infer("(0, 2, 1)", {}, {{2, 4, 3}}) == "(2, 3, 4) -> (2, 4, 3)");
  CHECK(infer("(1, 0)", {}) == "(?, ?) -> (?, ?)");
  CHECK(infer("()", {}) == "(...) -> (...)");
  CHECK(infer("()", {}, {{2, 3}}) == "(3, 2) -> (2, 3)");
  for (const char* axes : {"(0, 0, 1)", "(0, 1)", "(0, 1, 3)", "(0, -4, 1)"}) {
    CHECK(infer(axes, {{2, 3, 4}}) ==
          fmt::format("[transpose] axes {} are not an order of 3 axes", axes));
  }
  CHECK(infer("(0, 1)", {{2, 3}}, {{3, 2}}) ==
        "[transpose] shapes (3, 2) and (2, 3) contradict each other");
}

TEST_CASE("expand_dims gives shapes one axis more", "[reshape]") {
  const OpTable table = OpTable::build();
  const auto infer = [&](const char* axis, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    return inferred(table, "expand_dims", {{"axis", axis}}, std::move(inputs), std::move(outputs));
  };
  CHECK(infer("0", {{2, 3}}) == "(2, 3) -> (1, 2, 3)");
  CHECK(infer("-1", {{2, 3}}) == "(2, 3) -> (2, 3, 1)");
  CHECK(infer("-3", {{2, -1}}, {{-1, -1, 5}}) == "(2, 5) -> (1, 2, 5)");
  CHECK(infer("1", {}, {{2, 1, 3}}) == "(2, 3) -> (2, 1, 3)");
  CHECK(infer("0", {Shape{}}) == "() -> (1,)");
  CHECK(infer("0", {}) == "(...) -> (...)");
  CHECK(infer("3", {{2, 3}}) == "[expand_dims] axis 3 is out of range [-3, 2]");
  CHECK(infer("-4", {{2, 3}}) == "[expand_dims] axis -4 is out of range [-3, 2]");
  CHECK(infer("0", {{2}}, {{2, 2}}) ==
        "[expand_dims] output has shape (2, 2) where (1, 2) is expected");
  CHECK(infer("0", {}, {{2, 2}}) ==
        "[expand_dims] output has shape (2, 2) where (1, 2) is expected");
  CHECK(infer("0", {}, {Shape{}}) == "[expand_dims] an output without axes has none to spare");
  CHECK(infer("0", {{1, 1, 1, 1, 1, 1, 1, 1}}) ==
        "[expand_dims] shape (1, 1, 1, 1, 1, 1, 1, 1) has as many axes as a shape can have");
}

TEST_CASE("pad puts a border around", "[pad]") {
  const OpTable table = OpTable::build();
  const Tensor data = counted({1, 1, 2, 3});
  const auto padded = [&](const char* mode) {
    return values_of(
        evaluate(table, "Pad", {data},
                 {{"mode", mode}, {"pad_width", "(0,0,0,0,0,1,2,1)"}, {"constant_value", "9"}})[0]);
  };
  CHECK(padded("constant") == Numbers{9, 9, 0, 1, 2, 9, 9, 9, 3, 4, 5, 9, 9, 9, 9, 9, 9, 9});
  CHECK(padded("edge") == Numbers{0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 5, 5, 3, 3, 3, 4, 5, 5});
  CHECK(padded("reflect") == Numbers{2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4, 2, 1, 0, 1, 2, 1});

  const auto infer = [&](const char* mode, const char* widths, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    return inferred(table, "pad", {{"mode", mode}, {"pad_width", widths}}, std::move(inputs),
                    std::move(outputs));
  };
  CHECK(infer("edge", "(0, 0, 0, 0, 0, 0, 1, 1, 2, 2)", {{1, 2, 2, 3, -1}}) ==
        "(1, 2, 2, 3, ?) -> (1, 2, 2, 5, ?)");
  CHECK(infer("constant", "(1, 2, 0, 0)", {{-1, 4}}, {{5, -1}}) == "(2, 4) -> (5, 4)");
  CHECK(infer("constant", "(1, 1)", {{0}}) == "(0,) -> (2,)");
  CHECK(infer("reflect", "(0, 2)", {{2}}) ==
        "[pad] a border of 2 by mode reflect needs an extent of at least 3: shape (2,)");
  CHECK(infer("edge", "(0, 2)", {{0}}) ==
        "[pad] a border of 2 by mode edge needs an extent of at least 1: shape (0,)");
  CHECK(infer("constant", "(1, 2)", {}, {{2}}) ==
        "[pad] a border of 3 does not fit axis 0 of output (2,)");
  CHECK(infer("constant", "(1, 2)", {{2, 2}}) ==
        "[pad] data has shape (2, 2) where (?,) is expected");
  for (const char* widths : {"(1, 2, 3)", "(1, -1)", "()", "(1, x)", "(1, 2147483648)",
                             "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"}) {
    CHECK(infer("constant", widths, {{2, 2}}) ==
          fmt::format("[pad] parameter 'pad_width' is '{}' but must be two whole numbers per axis, "
                      "of 0 to 2147483647, for at most 8 axes",
                      widths));
  }
  CHECK(infer("mirror", "(1, 1)", {{2}}) ==
        "[pad] parameter 'mode' is 'mirror' (allowed: constant edge reflect)");
}

TEST_CASE("a reflected border gives its gradient to what it shows", "[pad]") {
  const OpTable table = OpTable::build();
  Tensor ones(DType::f32, {6});
  for (std::int64_t i = 0; i < 6; ++i) ones.set(i, 1);
  const auto counts = [&](const char* mode) {
    return values_of(evaluate(table, "pad_backward", {ones, counted({3})},
                              {{"mode", mode}, {"pad_width", "(1, 2)"}})[0]);
  };
  CHECK(counts("constant") == Numbers{1, 1, 1});
  CHECK(counts("edge") == Numbers{2, 1, 3});
  CHECK(counts("reflect") == Numbers{2, 3, 1});
}

TEST_CASE("upsampling repeats positions, in blocks of channels too", "[upsampling]") {
  const OpTable table = OpTable::build();
  const Attributes by_2 = {{"scale", "2"}, {"sample_type", "nearest"}, {"num_args", "1"}};
  CHECK(values_of(evaluate(table, "UpSampling", {counted({1, 1, 1, 2})}, by_2)[0]) ==
        Numbers{0, 0, 1, 1, 0, 0, 1, 1});
  OpCall call = free_call(table, "upsampling", {{1, 17, 3, 2}}, by_2);
  call.inputs[0].layout.kind = Layout::Kind::blocked;
  call.inputs[0].layout.order = {0, 1, 2, 3};
  call.inputs[0].layout.blocks = {{1, 8}};
  call.inputs[0].layout = layout_for(call.inputs[0].layout, call.inputs[0].shape);
  CHECK(prepare(call).value()->name() == "blocked");

  const auto infer = [&](Attributes attributes, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    attributes.insert(by_2.begin(), by_2.end());
    return inferred(table, "upsampling", attributes, std::move(inputs), std::move(outputs));
  };
  CHECK(infer({}, {{2, 3, 4, -1}}) == "(2, 3, 4, ?) -> (2, 3, 8, ?)");
  CHECK(infer({}, {}, {{2, 3, 8, 6}}) == "(2, 3, 4, 3) -> (2, 3, 8, 6)");
  CHECK(infer({}, {}, {{2, 3, 8, 5}}) ==
        "[upsampling] axis 3 of output (2, 3, 8, 5) is no multiple of scale 2");
  CHECK(infer({}, {{2, 3, 4, 4}}, {{2, 3, 8, 9}}) ==
        "[upsampling] output has shape (2, 3, 8, 9) where (2, 3, 8, 8) is expected");
  CHECK(
      infer({{"scale", "1000"}}, {{1, 1, 1, std::int64_t{1} << 40}}) ==
      "[upsampling] output: the shape (1, 1, 1000, 1099511627776000) has more than 2^40 elements");
  CHECK(infer({{"sample_type", "bilinear"}}, {{2, 3, 4, 4}}) ==
        "[upsampling] parameter 'sample_type' is 'bilinear' (allowed: nearest)");
  CHECK(infer({{"num_args", "2"}}, {{2, 3, 4, 4}}) ==
        "[upsampling] parameter 'num_args' is '2' (allowed: 1 to 1)");
}

TEST_CASE("lrn divides by what the neighbouring channels hold", "[lrn]") {
  const OpTable table = OpTable::build();
  const Tensor y = evaluate(table, "LRN", {counted({1, 4, 1})},
                            {{"nsize", "3"}, {"alpha", "3"}, {"beta", "1"}, {"knorm", "1"}})[0];
  const Numbers divisors = {2, 6, 15, 14};
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(y.at(i) == Approx(double(i) / divisors[std::size_t(i)]).epsilon(1e-6));
  }
  const auto infer = [&](const char* size, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    return inferred(table, "lrn", {{"nsize", size}}, std::move(inputs), std::move(outputs));
  };
  CHECK(infer("5", {}, {{2, 3, 4}}) == "(2, 3, 4) -> (2, 3, 4)");
  CHECK(infer("4", {{2, 3}}) ==
        "[lrn] nsize 4 is even; a window has as many channels before as behind its own");
  CHECK(infer("0", {{2, 3}}) == "[lrn] parameter 'nsize' is '0' (allowed: 1 to 2147483647)");
  CHECK(infer("5", {{3}}) == "[lrn] data of shape (3,) has no channels");
  CHECK(evaluate(table, "lrn", {counted({1, 3})}, {{"nsize", "2147483647"}})[0].at(0) == 0);
}

}  // namespace
}  // namespace troupe::ops
