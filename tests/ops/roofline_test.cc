// SPDX-License-Identifier: Apache-2.0
// The rule of seconds, and what follows from it: which offers a call gets, and in which order.
#include "ops/roofline.h"

#include <algorithm>

#include "tests/ops/cases.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Shape;
using testing::free_call;

TEST_CASE("a call takes as long as it moves bytes or computes, whichever is longer", "[offers]") {
  const OpTable table = OpTable::build();
  const RuleProcessor processor = rule_processor();
  const OpCall add = free_call(table, "add", {{1000, 50}, {1000, 50}});
  CHECK(bytes_moved(add) == 3 * 50'000 * 4);
  CHECK(roofline_seconds(add) == bytes_moved(add) / processor.bytes_per_second);
  CHECK(roofline_seconds(add, {1.0, 0.5}) == 2 * roofline_seconds(add));
  const OpCall product = free_call(table, "dot", {{512, 512}, {512, 512}});
  CHECK(roofline_seconds(product) == 2.0 * 512 * 512 * 512 / processor.flops_per_second);
  // Of the shape of the data, which the gradient does not read, nothing is moved.
  const OpCall gradient =
      free_call(table, "convolution_backward_data", {{1, 8, 4, 4}, {8, 2, 1, 1}, {1, 2, 4, 4}},
                {{"kernel", "(1, 1)"}, {"num_filter", "8"}, {"no_bias", "True"}});
  CHECK(bytes_moved(gradient) == (8 * 16 + 16 + 2 * 16) * 4);
}

TEST_CASE("on a GPU products take less time beside what only moves bytes, in 16 bits even less",
          "[offers]") {
  const OpTable table = OpTable::build();
  const OpCall add = free_call(table, "add", {{1000, 5000}, {1000, 5000}});
  OpCall product = free_call(table, "dot", {{4096, 4096}, {4096, 4096}});
  const auto ratio = [&add](const OpCall& call) { return gpu_seconds(call) / gpu_seconds(add); };
  const double plain = ratio(product);
  CHECK(plain < roofline_seconds(product) / roofline_seconds(add));
  product.tf32 = true;
  const double rounded = ratio(product);
  CHECK(rounded < plain);
  for (auto* tensors : {&product.inputs, &product.outputs}) {
    for (TensorDesc& tensor : *tensors) tensor.dtype = DType::bf16;
  }
  CHECK(ratio(product) < rounded);
}

TEST_CASE("padding does not count, a private layout does", "[offers]") {
  const OpTable table = OpTable::build();
  OpCall reorder = free_call(table, "reorder", {{1, 3, 4, 4}});
  const double dense = bytes_moved(reorder);
  CHECK(dense == 2 * 3 * 16 * 4);
  base::Layout layout;
  layout.kind = base::Layout::Kind::blocked;
  layout.order = {0, 1, 2, 3};
  layout.blocks = {{1, 16}};
  layout.padded = Shape{1, 16, 4, 4};
  reorder.outputs[0] = {DType::f32, {1, 3, 4, 4}, layout, false};
  CHECK(bytes_moved(reorder) == dense);
  layout = {};
  layout.kind = base::Layout::Kind::opaque;
  layout.bytes = 1000;
  reorder.outputs[0].layout = layout;
  CHECK(bytes_moved(reorder) == dense / 2 + 1000);
}

TEST_CASE("kernels of little work are made for one thread, and run right on one that leads more",
          "[offers][team][onednn]") {
  const OpTable table = OpTable::build();
  const auto alone = [&table](const char* op, std::vector<Shape> inputs, int team,
                              const Attributes& attributes = {}) {
    OpCall call = free_call(table, op, std::move(inputs), attributes);
    call.team = team;
    return prepare(call).value()->runs_alone();
  };
  const Attributes hidden = {{"num_hidden", "64"}};
  const std::int64_t rows = 2 * vector_lanes();  // the rule counts with vectors as wide as here
  CHECK(alone("fully_connected", {{rows, 64}, {64, 64}, {64}}, 2, hidden));
  CHECK_FALSE(alone("fully_connected", {{rows, 64}, {64, 64}, {64}}, 1, hidden));
  CHECK_FALSE(alone("fully_connected", {{8 * rows, 64}, {64, 64}, {64}}, 2, hidden));
  CHECK(alone("fully_connected", {{0, 64}, {64, 64}, {64}}, 2, hidden));
  CHECK(alone("add", {{1000}, {1000}}, 16));
  CHECK_FALSE(alone("add", {{100'000}, {100'000}}, 2));
  // A library's kernel, made for one thread, on a thread that leads three.
  const OpDef& op = table.at("lrn");
  const testing::Tensor data = testing::random_tensor(DType::f32, {2, 16, 3, 4}, "data", -4, 4);
  const Params params = parse_params(op, {{"nsize", "5"}}).value();
  OpCall call = make_call(op, params, testing::describe({data})).value();
  std::vector<testing::Tensor> results[2];
  for (const int team : {1, 3}) {
    call.team = team;
    const auto kernel = prepare(call).value();
    CHECK(kernel->name().starts_with("onednn"));
    CHECK(kernel->runs_alone() == (team > 1));
    auto& outputs = results[team > 1];
    outputs = testing::make_outputs(call);
    testing::run_kernel(*kernel, {data}, outputs, {.team = team});
  }
  CHECK(results[0][0].same_bits(results[1][0]));
}

TEST_CASE("offers come in the order of their seconds, and the first one is prepared", "[offers]") {
  const OpTable table = OpTable::build();
  const OpCall call = free_call(
      table, "convolution", {{8, 64, 56, 56}, {64, 64, 3, 3}},
      {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "64"}, {"no_bias", "True"}});
  std::vector<Decline> declines;
  const auto list = offers(call, &declines);
  REQUIRE(list.ok());
  CHECK(std::ranges::is_sorted(*list, {}, &Offer::seconds));
  CHECK(list->back().kernel == "reference");
  const auto candidates = std::ranges::count(call.op->kernels, false, &KernelDef::on_gpus);
  CHECK(std::ssize(*list) + std::ssize(declines) == candidates);
  const auto first = prepare(call);
  REQUIRE(first.ok());
  CHECK(first.value()->name() == list->front().kernel);
  CHECK(first.value()->scratch_bytes() == list->front().scratch_bytes);
  for (const Offer& offer : *list) {
    INFO(offer.kernel);
    CHECK(offer.inputs.size() == call.inputs.size());
    CHECK(offer.outputs.size() == call.outputs.size());
    CHECK(offer.maker->prepare(call).value()->name() == offer.kernel);
  }
}

TEST_CASE("a call for the reference gets that one offer", "[offers]") {
  const OpTable table = OpTable::build();
  OpCall call = free_call(table, "add", {{4, 4}, {4, 4}});
  call.reference_only = true;
  const auto list = offers(call);
  REQUIRE(list.ok());
  REQUIRE(list->size() == 1);
  CHECK(list->front().kernel == "reference");
}

TEST_CASE("equal calls have equal hashes, and what decides a kernel changes them", "[offers]") {
  const OpTable table = OpTable::build();
  const OpCall call = free_call(table, "add", {{4, 4}, {4, 4}});
  CHECK(call.hash() == free_call(table, "add", {{4, 4}, {4, 4}}).hash());
  OpCall other = call;
  other.winograd = false;
  CHECK(other.hash() != call.hash());
  other = call;
  other.tf32 = true;
  CHECK(other.hash() != call.hash());
  other = call;
  other.team = 2;
  CHECK(other.hash() != call.hash());
  other = call;
  other.inputs[0].any_layout = false;
  CHECK(other.hash() != call.hash());
}

}  // namespace
}  // namespace troupe::ops
