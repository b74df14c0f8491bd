// SPDX-License-Identifier: Apache-2.0
// Copies along an axis move whole blocks of blocked tensors, and only those.
#include "ops/support/axis_copy.h"

#include "ops/support/layout_map.h"
#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

using Order = Layout::Order;
using Blocks = Layout::Blocks;

const Order kInOrder = {0, 1, 2, 3};
const Blocks kBy16 = {{1, 16}};

Layout blocked(const Shape& shape, const Order& order, const Blocks& blocks) {
  Layout layout;
  layout.kind = Layout::Kind::blocked;
  layout.order = order;
  layout.blocks = blocks;
  return layout_for(layout, shape);
}

/// A call whose inputs lie in blocks and whose outputs are free.
struct Setup {
  std::string op;
  Attributes attributes;
  std::vector<Shape> shapes;
  Order order = kInOrder;
  Blocks blocks = kBy16;

  std::vector<Tensor> inputs() const {
    std::vector<Tensor> tensors;
    for (const Shape& shape : shapes) {
      tensors.push_back(random_tensor(DType::f32, shape, shape.to_string(), -1, 1));
    }
    return tensors;
  }
  OpCall call(const OpTable& table) const {
    const OpDef& op_def = table.at(op);
    const auto params = parse_params(op_def, attributes);
    REQUIRE(params.ok());
    auto call = make_call(op_def, *params, describe(inputs()));
    INFO(call.status().to_string());
    REQUIRE(call.ok());
    for (TensorDesc& input : call->inputs) input.layout = blocked(input.shape, order, blocks);
    for (TensorDesc& output : call->outputs) output.any_layout = true;
    return *call;
  }
};

const Attributes kTwo = {{"num_args", "2"}};
Attributes along(int axis) {
  return {{"num_args", "2"}, {"dim", std::to_string(axis)}};
}

void check_copies(const OpTable& table, const Setup& setup) {
  INFO(setup.op);
  const OpCall call = setup.call(table);
  const auto kernel = prepare(call);
  INFO(kernel.status().to_string());
  REQUIRE(kernel.ok());
  CHECK(kernel.value()->name() == "blocked");
  std::vector<Tensor> inputs, outputs;
  for (const Tensor& input : setup.inputs()) {
    inputs.push_back(packed(input, blocked(input.shape, setup.order, setup.blocks)));
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const Shape& shape = call.outputs[i].shape;
    outputs.emplace_back(DType::f32, shape, blocked(shape, setup.order, setup.blocks));
    CHECK(kernel.value()->output_layouts().at(i) == outputs.back().layout);
  }
  run_kernel(*kernel.value(), inputs, outputs, {.team = 2});
  const auto expected = evaluate(table, setup.op, setup.inputs(), setup.attributes);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CHECK(unpacked(outputs[i]).same_bits(expected[i]));
    CHECK(padding_is_zero(outputs[i]));
  }
}

TEST_CASE("concat, slice_axis and their gradients copy whole blocks", "[layout]") {
  const OpTable table = OpTable::build();
  const Shape a{2, 16, 3, 2}, b{2, 24, 3, 2}, whole{2, 40, 3, 2};
  check_copies(table, {"concat", kTwo, {a, b}});
  check_copies(table, {"concat", along(-3), {a, b}});
  check_copies(table, {"concat_backward", kTwo, {whole, a, b}});
  // Along other axes each part may be padded, and blocks of two axes are two kinds of steps.
  check_copies(table, {"concat", along(3), {b, {2, 24, 3, 5}}});
  check_copies(table, {"concat", along(2), {b, {2, 24, 1, 2}}});
  check_copies(table, {"concat", along(0), {a, {3, 16, 3, 2}}, {1, 0, 3, 2}, {{0, 2}, {1, 16}}});
  check_copies(table, {"concat", kTwo, {a, b}, {2, 1, 0, 3}, {{1, 4}, {0, 2}, {1, 4}}});
  check_copies(table, {"concat", kTwo, {a, {2, 0, 3, 2}}});
  for (const char* end : {"32", "None"}) {
    const Attributes range = {{"axis", "1"}, {"begin", "16"}, {"end", end}};
    const Shape part{2, end[0] == '3' ? 16 : 24, 3, 2};
    check_copies(table, {"slice_axis", range, {whole}});
    check_copies(table, {"slice_axis_backward", range, {part, whole}});
  }
  check_copies(table, {"slice_axis", {{"axis", "-1"}, {"begin", "1"}}, {b}});
}

TEST_CASE("what would cut a block is left to dense tensors", "[layout]") {
  const OpTable table = OpTable::build();
  const Shape a{2, 24, 3, 2}, b{2, 16, 3, 2}, whole{2, 40, 3, 2};
  const std::vector<Setup> cutting = {
      {"concat", kTwo, {a, b}},
      {"concat_backward", kTwo, {whole, a, b}},
      {"slice_axis", {{"axis", "1"}, {"begin", "8"}}, {whole}},
      {"slice_axis", {{"axis", "1"}, {"end", "24"}}, {whole}},
      {"slice_axis_backward", {{"axis", "1"}, {"end", "24"}}, {a, whole}},
  };
  for (const Setup& setup : cutting) {
    INFO(setup.op);
    OpCall call = setup.call(table);
    std::vector<Decline> declines;
    CHECK(offers(call, &declines).status().code() == base::Errc::unimplemented);
    REQUIRE_FALSE(declines.empty());
    CHECK(declines[0].kernel == "blocked");
    CHECK(declines[0].reason.find("a block of 16") != std::string::npos);
    for (TensorDesc& input : call.inputs) input.any_layout = true;
    const auto kernel = prepare(call);
    REQUIRE(kernel.ok());
    CHECK(kernel.value()->name() == "reference");
    for (const Layout& layout : kernel.value()->output_layouts()) CHECK(layout.is_dense());
  }
}

TEST_CASE("free tensors follow the one that is blocked, and mixed layouts are declined",
          "[layout]") {
  const OpTable table = OpTable::build();
  OpCall call = Setup{"concat", kTwo, {{2, 16, 3, 2}, {2, 16, 3, 2}}}.call(table);
  const Layout layout = call.inputs[0].layout;
  call.inputs[1].layout = Layout::dense();
  CHECK(prepare(call).status().code() == base::Errc::unimplemented);
  call.inputs[1].any_layout = true;
  const auto kernel = prepare(call);
  REQUIRE(kernel.ok());
  CHECK(kernel.value()->input_layouts() == std::vector<Layout>{layout, layout});
  call.modes = {WriteMode::add};
  CHECK(prepare(call).status().code() == base::Errc::unimplemented);
  call.inputs[0].any_layout = true;
  CHECK(prepare(call).value()->name() == "reference");
}

}  // namespace
}  // namespace troupe::ops
