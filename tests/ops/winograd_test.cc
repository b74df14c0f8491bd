// SPDX-License-Identifier: Apache-2.0
// Winograd's convolution and its gradients against the direct sums in f64, whatever the extents and
// the team; and which calls it takes.
#include "ops/support/winograd.h"

#include <cmath>

#include "ops/support/layout_map.h"
#include "tests/ops/cases.h"
#include "tests/ops/highway_limit.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

constexpr double kNear = 3e-6;

Layout by_lanes(const Shape& shape) {
  Layout layout;
  layout.kind = Layout::Kind::blocked;
  layout.order = {0, 1, 2, 3};
  layout.blocks = {{1, winograd_lanes()}};
  return layout_for(layout, shape);
}

/// A convolution with windows of 3x3; channels and filters in vectors.
struct Case {
  std::int64_t images, channels, filters, height, width, top, left;

  std::int64_t in() const { return channels * winograd_lanes(); }
  std::int64_t out() const { return filters * winograd_lanes(); }
  Shape data() const { return {images, in(), height, width}; }
  Shape weight() const { return {out(), in(), 3, 3}; }
  Shape output() const { return {images, out(), height + 2 * top - 2, width + 2 * left - 2}; }
  Attributes attributes() const {
    const std::string padding = "(" + std::to_string(top) + ", " + std::to_string(left) + ")";
    return {{"kernel", "(3, 3)"}, {"pad", padding}, {"num_filter", std::to_string(out())}};
  }
  Winograd extents() const {
    return {images, in(), out(), height, width, output()[2], output()[3], top, left};
  }
  /// Of the data gradient, which is a convolution of the output's gradient.
  Winograd rotated() const {
    return {images, out(), in(), output()[2], output()[3], height, width, 2 - top, 2 - left};
  }
  std::string title() const { return data().to_string() + " to " + output().to_string(); }
};

/// Runs f(context) with scratch of so many bytes, filled with NaN and guarded.
template <typename F>
void with_context(int team, std::size_t scratch_bytes, F&& f) {
  const Tensor scratch(DType::u8, Shape{std::int64_t(scratch_bytes)});
  KernelContext context{};
  context.scratch = {scratch.memory.data(), scratch_bytes};
  context.team = team;
  base::lead_team(team, [&] { f(context); });
  CHECK(scratch.guard_intact());
}

/// Inputs of a case, and what the reference makes of them in f64.
struct Setup {
  Case c;
  Tensor data, weight, bias, gradient;
  std::vector<Tensor> expected;  // output, data gradient, weight gradient, bias gradient

  Setup(const OpTable& table, const Case& which) : c(which) {
    const auto make = [](const Shape& shape, const char* name) {
      return random_tensor(DType::f32, shape, name, -1, 1);
    };
    data = make(c.data(), "data");
    weight = make(c.weight(), "weight");
    bias = make(Shape{c.out()}, "bias");
    gradient = make(c.output(), "gradient");
    const auto exact = [&](const char* op, std::vector<Tensor> inputs) {
      for (Tensor& input : inputs) input = converted(input, DType::f64);
      for (Tensor& output : evaluate(table, op, inputs, c.attributes())) {
        expected.push_back(std::move(output));
      }
    };
    exact("convolution", {data, weight, bias});
    exact("convolution_backward_data", {gradient, weight, data});
    exact("convolution_backward_weights", {gradient, data});
  }

  Tensor transformed(int team, bool rotated) const {
    const std::int64_t in = c.in(), out = c.out(), taps = 9;
    const WinogradTaps plain{weight.view().as<float>(), in, out, taps, in * taps, false};
    const WinogradTaps turned{weight.view().as<float>(), out, in, in * taps, taps, true};
    const Layout layout =
        rotated ? winograd_layout(out, in, true) : winograd_layout(in, out, false);
    Tensor to(DType::f32, c.weight(), layout);
    with_context(team, 0, [&](const KernelContext& context) {
      transform_weights(context, rotated ? turned : plain, to.view().as<float>());
    });
    CHECK(to.guard_intact());
    return to;
  }

  /// In the order of `expected`.
  std::vector<Tensor> run(int team, std::int64_t block = 2 * kWinogradBlock) const {
    std::vector<Tensor> results = {Tensor(DType::f32, c.output(), by_lanes(c.output())),
                                   Tensor(DType::f32, c.data(), by_lanes(c.data())),
                                   Tensor(DType::f32, c.weight()), Tensor(DType::f32, bias.shape)};
    const auto address = [](const Tensor& tensor) { return tensor.view().as<float>(); };
    const Tensor x = packed(data, by_lanes(c.data()));
    const Tensor y = packed(gradient, by_lanes(c.output()));
    const WinogradConvolution forward(c.extents(), team), back(c.rotated(), team);
    const WinogradGradient gradients(c.extents(), team, block);
    with_context(team, forward.scratch_bytes(), [&](const KernelContext& context) {
      forward.run(context, address(x), address(transformed(team, false)), {.bias = address(bias)},
                  address(results[0]));
    });
    with_context(team, back.scratch_bytes(), [&](const KernelContext& context) {
      back.run(context, address(y), address(transformed(team, true)), {}, address(results[1]));
    });
    with_context(team, gradients.scratch_bytes(), [&](const KernelContext& context) {
      gradients.run(context, address(x), address(y), address(results[2]), address(results[3]));
    });
    return results;
  }
};

void check_case(const OpTable& table, const Case& c, std::initializer_list<int> teams) {
  INFO(c.title());
  const Setup setup(table, c);
  const std::vector<Tensor> results = setup.run(1);
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO("result " << i);
    CHECK(results[i].guard_intact());
    CHECK(distance(converted(unpacked(results[i]), DType::f64), setup.expected[i]) <= kNear);
  }
  for (const int team : teams) {
    INFO("team " << team);
    const std::vector<Tensor> again = setup.run(team);
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(again[i].same_bits(results[i]));
  }
  // Whatever a machine's caches are.
  for (const std::int64_t block : {kWinogradBlock, 2 * kWinogradBlock}) {
    INFO("block " << block);
    const std::vector<Tensor> again = setup.run(teams.begin()[0], block);
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(again[i].same_bits(results[i]));
  }
}

TEST_CASE("Winograd's convolutions are near the direct sums, the same for every team",
          "[winograd]") {
  const OpTable table = OpTable::build();
  // All lanes of this machine, and those of a processor without AVX-512.
  for (const std::int64_t disabled : {std::int64_t{0}, std::int64_t{HWY_AVX2 - 1}}) {
    const HighwayLimit limit(disabled);
    if (winograd_lanes() == 0) return;  // vectors of less than 8 numbers
    INFO(winograd_lanes() << " lanes");
    check_case(table, {1, 1, 1, 4, 4, 1, 1}, {2});          // one tile, one vector
    check_case(table, {2, 2, 3, 9, 11, 1, 1}, {2, 3});      // an odd number of vectors
    check_case(table, {3, 3, 2, 6, 5, 0, 0}, {2, 5});       // no padding
    check_case(table, {1, 1, 2, 5, 3, 2, 0}, {3});          // unlike padding
    check_case(table, {2, 1, 5, 13, 1, 0, 1}, {2});         // one column
    check_case(table, {1, 9, 5, 7, 7, 1, 1}, {2, 7});       // few tiles, several blocks
    check_case(table, {5, 2, 2, 27, 30, 1, 1}, {2, 3, 5});  // groups of each thread's own
    check_case(table, {2, 18, 11, 6, 6, 1, 1}, {2});        // blocks of either size, and rests
  }
}

TEST_CASE("large planes go past the caches, and through parts and runs of tiles", "[winograd]") {
  if (winograd_lanes() == 0) return;  // vectors of less than 8 numbers
  const OpTable table = OpTable::build();
  check_case(table, {1, 1, 1, 721, 719, 1, 1}, {3});
  check_case(table, {1, 5, 1, 128, 128, 1, 1}, {2});
  const std::int64_t many = 512 / winograd_lanes();  // as many channels as VGG's last layers have
  check_case(table, {1, many, many, 4, 4, 1, 1}, {2});
}

TEST_CASE("what is not finite reaches the tiles that hold it, and no other", "[winograd][nan]") {
  if (winograd_lanes() == 0) return;  // vectors of less than 8 numbers
  const OpTable table = OpTable::build();
  Setup setup(table, {1, 1, 1, 12, 12, 1, 1});
  for (const double value : {std::nan(""), HUGE_VAL}) {
    setup.data.set(5 * 12 + 5, value);  // in the middle one of nine tiles, not at its border
    const std::vector<Tensor> results = setup.run(1);
    const Tensor output = unpacked(results[0]);
    for (std::int64_t i = 0; i < output.elements(); ++i) {
      const std::int64_t row = i / 12 % 12, column = i % 12;
      const bool near = std::abs(row - 5) <= 1 && std::abs(column - 5) <= 1;
      const bool in_tiles = row / 4 == 1 && column / 4 == 1;
      if (near) CHECK_FALSE(std::isfinite(output.at(i)));
      if (!in_tiles) CHECK(std::isfinite(output.at(i)));
    }
  }
}

/// The results of a call whose layouts are free: tensors are reordered as the kernel wants them.
std::vector<Tensor> run_freely(const OpTable& table, const char* op, std::vector<Tensor> inputs,
                               const Attributes& attributes) {
  auto call =
      make_call(table.at(op), parse_params(table.at(op), attributes).value(), describe(inputs));
  REQUIRE(call.ok());
  for (auto* group : {&call->inputs, &call->outputs}) {
    for (TensorDesc& desc : *group) desc.any_layout = true;
  }
  const auto kernel = prepare(*call).value();
  CHECK(kernel->name() == "simd:winograd");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Layout to = kernel->input_layouts().at(i);
    if (to.is_dense()) continue;
    inputs[i] = reordered(inputs[i], to);
  }
  std::vector<Tensor> outputs;
  for (std::size_t o = 0; o < call->outputs.size(); ++o) {
    outputs.emplace_back(DType::f32, call->outputs[o].shape, kernel->output_layouts().at(o));
  }
  run_kernel(*kernel, inputs, outputs, {});
  for (Tensor& output : outputs) output = unpacked(output);
  return outputs;
}

TEST_CASE("the operators' kernels in Winograd's form give what the reference gives", "[winograd]") {
  if (winograd_lanes() == 0) return;  // vectors of less than 8 numbers
  const OpTable table = OpTable::build();
  const Case c{4, 2, 3, 28, 24, 1, 0};
  const Setup setup(table, c);
  std::vector<Tensor> results;
  const auto run = [&](const char* op, const std::vector<Tensor>& inputs) {
    INFO(op);
    for (Tensor& output : run_freely(table, op, inputs, c.attributes())) {
      results.push_back(std::move(output));
    }
  };
  run("convolution", {setup.data, setup.weight, setup.bias});
  run("convolution_backward_data", {setup.gradient, setup.weight, setup.data});
  run("convolution_backward_weights", {setup.gradient, setup.data});
  REQUIRE(results.size() == setup.expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(distance(converted(results[i], DType::f64), setup.expected[i]) <= kNear);
  }
  Attributes unbiased = c.attributes();
  unbiased["no_bias"] = "True";
  const auto weights =
      run_freely(table, "convolution_backward_weights", {setup.gradient, setup.data}, unbiased);
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].same_bits(results[2]));
}

/// The kernel of a call whose layouts are free.
std::string kernel_of(const OpTable& table, const char* op, std::vector<Shape> inputs,
                      const Attributes& attributes, bool winograd = true, int team = 1) {
  OpCall call = free_call(table, op, inputs, attributes);
  call.winograd = winograd;
  call.team = team;
  std::string name;
  base::lead_team(team, [&] { name = prepare(call).value()->name(); });
  return name;
}

TEST_CASE("convolutions of nothing are left to the reference", "[winograd][edges]") {
  const OpTable table = OpTable::build();
  const Attributes attributes = {
      {"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "32"}, {"no_bias", "True"}};
  const Shape data{2, 0, 6, 6}, weight{32, 0, 3, 3}, output{2, 32, 6, 6};
  for (const int team : {1, 4}) {
    for (const auto& [op, shapes] : std::map<std::string, std::vector<Shape>>{
             {"convolution", {data, weight}},
             {"convolution_backward_data", {output, weight, data}},
             {"convolution_backward_weights", {output, data}}}) {
      INFO(op);
      CHECK(kernel_of(table, op.c_str(), shapes, attributes, true, team) == "reference");
    }
  }
}

TEST_CASE("scratch of Winograd's convolutions stays below 4 MB a thread", "[winograd]") {
  if (winograd_lanes() == 0) return;  // vectors of less than 8 numbers
  constexpr std::size_t kMost = 4'000'000;
  for (const std::int64_t channels : {16, 64, 128, 256, 512, 1024}) {
    for (const std::int64_t side : {7, 14, 28, 56, 112, 224}) {
      if (channels * side > 64 * 224) continue;
      const Winograd w{32, channels, channels, side, side, side, side, 1, 1};
      for (const int team : {1, 2, 16}) {
        INFO(channels << " channels of " << side << ", team " << team);
        CHECK(WinogradConvolution(w, team).scratch_bytes() <= kMost * std::size_t(team));
      }
      for (const std::int64_t block : {kWinogradBlock, 2 * kWinogradBlock}) {
        CHECK(WinogradGradient(w, 2, block).scratch_bytes() <= kMost * 2);
      }
    }
  }
}

TEST_CASE("convolutions of 3x3 take Winograd's form where tiles outweigh weights", "[winograd]") {
  if (winograd_lanes() == 0) return;  // vectors of less than 8 numbers
  const OpTable table = OpTable::build();
  Attributes attributes = {
      {"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "128"}, {"no_bias", "True"}};
  const Shape data{8, 64, 56, 56}, weight{128, 64, 3, 3}, output{8, 128, 56, 56};
  const std::string own = "simd:winograd";
  CHECK(kernel_of(table, "convolution", {data, weight}, attributes) == own);
  CHECK(kernel_of(table, "convolution_backward_data", {output, weight, data}, attributes) == own);
  CHECK(kernel_of(table, "convolution_backward_weights", {output, data}, attributes) == own);
  CHECK(kernel_of(table, "convolution", {data, weight}, attributes, false) != own);
  CHECK(kernel_of(table, "convolution", {{1, 64, 4, 4}, weight}, attributes) != own);
  CHECK(kernel_of(table, "convolution", {{8, 63, 56, 56}, {128, 63, 3, 3}}, attributes) != own);
  for (const auto& [name, value] : Attributes{
           {"stride", "(2, 2)"}, {"dilate", "(2, 2)"}, {"num_group", "2"}, {"pad", "(3, 3)"}}) {
    INFO(name);
    Attributes other = attributes;
    other[name] = value;
    const Shape taps{128, name == "num_group" ? 32 : 64, 3, 3};
    CHECK(kernel_of(table, "convolution", {data, taps}, other) != own);
  }
}

}  // namespace
}  // namespace troupe::ops
