// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of gathered rows, and their gradients, against the direct sums in f64:
// more images than chunks, images of several blocks of rows, windows that are no run of memory; the
// same bits whatever the team that a kernel was prepared for.
#include "ops/support/patches.h"

#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

/// The kernel's outputs of a call for so many threads, which begin with `before` where added to.
std::vector<Tensor> outputs_of(OpCall call, const std::vector<Tensor>& inputs, int team,
                               const std::vector<Tensor>& before) {
  call.team = team;
  for (const KernelDef& candidate : call.op->kernels) {
    if (candidate.name != "simd:patches") continue;
    const auto kernel = prepare_candidate(candidate, call);
    REQUIRE(kernel);
    std::vector<Tensor> outputs;
    for (const Tensor& tensor : before) outputs.push_back(tensor.clone());
    run_kernel(*kernel, inputs, outputs, {.team = team});
    return outputs;
  }
  FAIL("no such kernel");
  return {};
}

void check(const char* name, const Attributes& attributes, const std::vector<Shape>& shapes,
           bool add = false) {
  INFO(name << " of " << shapes[0].to_string() << " and " << shapes[1].to_string());
  const OpTable table = OpTable::build();
  const OpDef& op = table.at(name);
  std::vector<Tensor> inputs, wide;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(random_tensor(DType::f32, shapes[i], "in" + std::to_string(i), -1, 1));
    wide.push_back(converted(inputs.back(), DType::f64));
  }
  std::vector<Tensor> expected = evaluate(table, name, wide, attributes);
  auto call = make_call(op, parse_params(op, attributes).value(), describe(inputs));
  INFO(call.status().to_string());
  REQUIRE(call.ok());
  std::vector<Tensor> before;
  for (Tensor& tensor : expected) {
    before.push_back(random_tensor(DType::f32, tensor.shape, "before", -1, 1));
    for (std::int64_t i = 0; add && i < tensor.elements(); ++i) {
      tensor.set(i, tensor.at(i) + before.back().at(i));
    }
  }
  if (add) call.value().modes.assign(before.size(), WriteMode::add);
  const auto alone = outputs_of(call.value(), inputs, 1, before);
  const auto together = outputs_of(call.value(), inputs, 3, before);
  for (std::size_t o = 0; o < expected.size(); ++o) {
    INFO("output " << o);
    CHECK(distance(alone[o], expected[o]) <= 1e-5);
    CHECK(together[o].same_bits(alone[o]));
  }
}

/// All passes of a convolution.
void check_passes(Attributes attributes, const Shape& data, const Shape& weight,
                  const Shape& output) {
  attributes["num_filter"] = std::to_string(weight[0]);
  const Shape bias{weight[0]};
  check("convolution", attributes, {data, weight, bias});
  check("convolution_backward_data", attributes, {output, weight, data});
  check("convolution_backward_weights", attributes, {output, data});
  check("convolution_backward_weights", attributes, {output, data}, true);
  attributes["act_type"] = "relu";
  check("convolution", attributes, {data, weight, bias});
}

TEST_CASE("convolutions of gathered rows and their gradients are those of the direct sums",
          "[patches]") {
  // Of 10 images; their last chunks are short.
  check_passes({{"kernel", "(5, 5)"}}, {10, 3, 12, 9}, {7, 3, 5, 5}, {10, 7, 8, 5});
  check_passes({{"kernel", "(3, 2)"}, {"stride", "(2, 3)"}, {"pad", "(1, 2)"}}, {3, 17, 9, 14},
               {33, 17, 3, 2}, {3, 33, 5, 6});
  // A row of 1,800 numbers: few rows at a time.
  check_passes({{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}}, {1, 200, 7, 8}, {5, 200, 3, 3},
               {1, 5, 7, 8});
  // More windows than rows are gathered at a time.
  check_passes({{"kernel", "(2, 2)"}}, {1, 1, 41, 61}, {2, 1, 2, 2}, {1, 2, 40, 60});
  // The taps of a window's line are apart.
  check_passes({{"kernel", "(3, 3)"}, {"dilate", "(2, 2)"}, {"pad", "(2, 1)"}}, {2, 6, 7, 9},
               {4, 6, 3, 3}, {2, 4, 7, 7});
  check_passes({{"kernel", "(1, 1)"}, {"stride", "(2, 2)"}}, {2, 18, 5, 5}, {17, 18, 1, 1},
               {2, 17, 3, 3});
}

TEST_CASE("gathered rows are for dense tensors of one group and windows of some size",
          "[patches]") {
  const OpTable table = OpTable::build();
  const auto declines = [&](const Attributes& attributes, const std::vector<Shape>& shapes) {
    const OpDef& op = table.at("convolution");
    std::vector<TensorDesc> inputs;
    for (const Shape& shape : shapes) inputs.push_back({DType::f32, shape, {}, false});
    auto call = make_call(op, parse_params(op, attributes).value(), inputs);
    REQUIRE(call.ok());
    for (const KernelDef& candidate : op.kernels) {
      if (candidate.name == "simd:patches") CHECK_FALSE(prepare_candidate(candidate, call.value()));
    }
  };
  declines({{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"num_group", "2"}},
           {{1, 4, 5, 5}, {4, 2, 3, 3}, {4}});
  declines({{"kernel", "(3, 3)"}, {"num_filter", "2"}}, {{1, 256, 5, 5}, {2, 256, 3, 3}, {2}});
}

}  // namespace
}  // namespace troupe::ops
