// SPDX-License-Identifier: Apache-2.0
// deconvolution against convolution, of which it is the transpose, and what its parameters mean.
#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

double product(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape == b.shape);
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

TEST_CASE("deconvolution is convolution's transpose", "[deconvolution]") {
  const OpTable table = OpTable::build();
  struct Form {
    Attributes windows, adjust;
    Shape image;  ///< of the convolution
    std::int64_t channels, filters, groups;
  };
  const std::vector<Form> forms = {
      {{{"kernel", "(3, 3)"}}, {}, {2, 4, 6, 7}, 4, 6, 1},
      {{{"kernel", "(3, 2)"}, {"stride", "(2, 3)"}, {"pad", "(1, 0)"}},
       {{"adj", "(1, 2)"}},
       {2, 4, 8, 7},
       4,
       6,
       2},
      {{{"kernel", "(3, 3)"}, {"dilate", "(2, 1)"}, {"pad", "(3, 2)"}}, {}, {1, 3, 5, 6}, 3, 3, 3},
  };
  for (const Form& form : forms) {
    INFO(form.windows.at("kernel") << ", " << form.groups << " groups");
    Attributes convolution = form.windows, deconvolution = form.windows;
    convolution.insert({{"num_filter", std::to_string(form.filters)}, {"no_bias", "True"}});
    deconvolution.emplace("num_filter", std::to_string(form.channels));
    deconvolution.insert(form.adjust.begin(), form.adjust.end());
    for (Attributes* each : {&convolution, &deconvolution}) {
      each->emplace("num_group", std::to_string(form.groups));
    }
    const base::Shape taps = base::parse_shape(form.windows.at("kernel")).value();
    const Tensor x = random_tensor(DType::f64, form.image, "x", -1, 1);
    const Tensor w = random_tensor(
        DType::f64, {form.filters, form.channels / form.groups, taps[0], taps[1]}, "w", -1, 1);
    const Tensor there = evaluate(table, "convolution", {x, w}, convolution)[0];
    const Tensor y = random_tensor(DType::f64, there.shape, "y", -1, 1);
    const Tensor back = evaluate(table, "deconvolution", {y, w}, deconvolution)[0];
    CHECK(product(there, y) == Approx(product(x, back)).epsilon(1e-12));
  }
}

TEST_CASE("MXNet's bilinear upsampling is a deconvolution", "[deconvolution]") {
  const OpTable table = OpTable::build();
  Tensor ones(DType::f64, {1, 1, 3, 3}), weight(DType::f64, {1, 1, 4, 4});
  for (std::int64_t i = 0; i < 9; ++i) ones.set(i, 1);
  for (std::int64_t i = 0; i < 16; ++i) weight.set(i, 1);
  const Attributes by_2 = {
      {"kernel", "(4, 4)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"num_filter", "1"}};
  const Tensor out = evaluate(table, "Deconvolution", {ones, weight}, by_2)[0];
  REQUIRE(out.shape == Shape{1, 1, 6, 6});
  // From MXNet's documentation.
  const std::vector<double> edge = {1, 2, 2, 2, 2, 1}, inner = {2, 4, 4, 4, 4, 2};
  for (std::int64_t y = 0; y < 6; ++y) {
    for (std::int64_t x = 0; x < 6; ++x) {
      CHECK(out.at(y * 6 + x) == (y == 0 || y == 5 ? edge : inner)[std::size_t(x)]);
    }
  }
}

TEST_CASE("deconvolution's shapes follow from each other, and errors name both",
          "[deconvolution]") {
  const OpTable table = OpTable::build();
  const auto infer = [&](const Attributes& more, std::vector<Shape> inputs,
                         std::vector<Shape> outputs = {}) {
    Attributes attributes = {{"kernel", "(4, 4)"}, {"num_filter", "6"}};
    for (const auto& [name, value] : more) attributes[name] = value;
    return inferred(table, "Deconvolution", attributes, std::move(inputs), std::move(outputs));
  };
  const Shape data = {1, 4, 4, 5};
  const std::pair<std::string, std::string> by_2 = {"stride", "(2, 2)"};
  // As MXNet 1.9.1 infers them.
  CHECK(infer({{"stride", "()"}, {"workspace", "512"}}, {data}) ==
        "(1, 4, 4, 5) (4, 6, 4, 4) -> (1, 6, 7, 8)");
  CHECK(infer({by_2, {"pad", "(1, 1)"}, {"adj", "(1, 0)"}, {"no_bias", "False"}}, {data}) ==
        "(1, 4, 4, 5) (4, 6, 4, 4) (6,) -> (1, 6, 9, 10)");
  CHECK(infer({by_2, {"target_shape", "(9, 8)"}, {"adj", "(1, 1)"}}, {data}) ==
        "(1, 4, 4, 5) (4, 6, 4, 4) -> (1, 6, 9, 8)");
  CHECK(infer({by_2, {"target_shape", "(0, 0)"}, {"num_group", "2"}}, {data}) ==
        "(1, 4, 4, 5) (4, 3, 4, 4) -> (1, 6, 10, 12)");
  // Backwards.
  CHECK(infer({by_2}, {Shape::unknown(), Shape{4, 6, 4, 4}}, {{2, 6, 10, 12}}) ==
        "(2, 4, 4, 5) (4, 6, 4, 4) -> (2, 6, 10, 12)");
  CHECK(infer({by_2, {"target_shape", "(9, 8)"}}, {Shape{-1, 4, -1, -1}}) ==
        "(?, 4, ?, ?) (4, 6, 4, 4) -> (?, 6, 9, 8)");

  CHECK(infer({by_2, {"adj", "(0, 2)"}}, {data}) ==
        "[deconvolution] adj 2 must be smaller than stride 2");
  CHECK(infer({by_2, {"target_shape", "(90, 8)"}}, {data}) ==
        "[deconvolution] target_shape asks for 90 positions of 10");
  CHECK(infer({by_2, {"target_shape", "(0, 8)"}}, {data}) ==
        "[deconvolution] target_shape is (0, 8); both extents are needed");
  CHECK(infer({{"adj", "(1,)"}}, {data}) ==
        "[deconvolution] adj is (1,); it needs two extents (height, width)");
  CHECK(infer({{"pad", "(4, 4)"}}, {data}) ==
        "[deconvolution] padding 4 leaves nothing of 7 positions");
  CHECK(infer({{"num_group", "4"}}, {data}) ==
        "[deconvolution] num_filter 6 is not a multiple of num_group 4");
  CHECK(infer({{"num_group", "3"}}, {data}) ==
        "[deconvolution] 4 channels are not a multiple of num_group 3");
  CHECK(infer({}, {data, Shape{5, 6, 4, 4}}) ==
        "[deconvolution] weight has shape (5, 6, 4, 4) where (4, 6, 4, 4) is expected");
  CHECK(infer({}, {Shape{1, 4, 0, 5}}) ==
        "[deconvolution] windows of 0 positions cannot be laid out");
  CHECK(infer({{"stride", "(2147483647, 1)"}}, {Shape{1, 1, std::int64_t{1} << 40, 1}}) ==
        "[deconvolution] windows of 1099511627776 positions cannot be laid out");
  CHECK(infer({{"kernel", "(4)"}}, {data}) ==
        "[deconvolution] kernel is (4,); it needs two extents (height, width)");
}

TEST_CASE("deconvolutions and their gradients run in convolution's fast kernels",
          "[deconvolution][onednn]") {
  const OpTable table = OpTable::build();
  const Attributes attributes = {
      {"kernel", "(4, 4)"}, {"stride", "(2, 2)"}, {"num_filter", "32"}, {"no_bias", "False"}};
  const Shape data = {2, 32, 7, 7}, weight = {32, 32, 4, 4}, output = {2, 32, 16, 16};
  const auto kernel_of = [&](const char* op, const std::vector<Shape>& shapes) {
    auto kernel = prepare(free_call(table, op, shapes, attributes));
    REQUIRE(kernel.ok());
    return *std::move(kernel);
  };
  const auto forward = kernel_of("deconvolution", {data, weight, {32}});
  CHECK(forward->name().starts_with("onednn"));
  CHECK_FALSE(forward->output_layouts().at(0).is_dense());
  CHECK(kernel_of("deconvolution_backward_data", {output, weight, data})
            ->name()
            .starts_with("onednn"));
  CHECK(kernel_of("deconvolution_backward_weights", {data, output})->name().starts_with("onednn"));
}

TEST_CASE("deconvolution of no channels is its bias", "[deconvolution]") {
  const OpTable table = OpTable::build();
  const Tensor bias = random_tensor(DType::f32, {3}, "bias", -1, 1);
  const Tensor out =
      evaluate(table, "deconvolution",
               {Tensor(DType::f32, {2, 0, 2, 2}), Tensor(DType::f32, {0, 3, 2, 2}), bias},
               {{"kernel", "(2, 2)"}, {"num_filter", "3"}, {"no_bias", "False"}})[0];
  REQUIRE(out.shape == Shape{2, 3, 3, 3});
  for (std::int64_t i = 0; i < out.elements(); ++i) CHECK(out.at(i) == bias.at(i / 9 % 3));
}

}  // namespace
}  // namespace troupe::ops
