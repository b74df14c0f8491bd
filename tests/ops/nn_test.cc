// SPDX-License-Identifier: Apache-2.0
// Network operators beyond the conformance test: which kernels take which calls, layouts, labels,
// prediction forms, reshape codes.
#include <catch2/catch.hpp>
#include <set>

#include "ops/nn/layout_map.h"
#include "tests/ops/tensors.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

OpCall f32_call(const OpDef& op, const Sample& sample, bool any_layout) {
  auto params = parse_params(op, sample.attributes);
  REQUIRE(params.ok());
  std::vector<std::optional<DType>> inputs(sample.inputs.size(), DType::f32);
  for (const auto& [index, range] : sample.integers) inputs[std::size_t(index)].reset();
  std::vector<std::optional<DType>> outputs(op.outputs(params.value()).size());
  REQUIRE(infer_dtypes(op, params.value(), inputs, outputs).ok());
  std::vector<TensorDesc> descs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    descs.push_back({inputs[i].value_or(DType::i32), sample.inputs[i], {}, any_layout});
  }
  auto call = make_call(op, params.value(), descs);
  INFO(call.status().to_string());
  REQUIRE(call.ok());
  for (TensorDesc& output : call.value().outputs) output.any_layout = any_layout;
  return call.value();
}

/// Tensors of a sample with the values of the conformance test's kind.
std::vector<Tensor> sample_inputs(const OpCall& call, const Sample& sample) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const auto whole = sample.integers.find(int(i));
    const bool is_whole = whole != sample.integers.end();
    inputs.push_back(
        random_tensor(call.inputs[i].dtype, call.inputs[i].shape, call.op->name + std::to_string(i),
                      is_whole ? double(whole->second.first) : sample.low,
                      is_whole ? double(whole->second.second) : sample.high, is_whole));
  }
  return inputs;
}

/// nChw16c for a shape of four axes.
Layout by_16_channels(const Shape& shape) {
  Layout layout;
  layout.kind = Layout::Kind::blocked;
  layout.order = {0, 1, 2, 3};
  layout.blocks = {{1, 16}};
  return layout_for(layout, shape);
}

TEST_CASE("operators between convolutions keep the layout of 16 channels", "[layout]") {
  const OpTable table = OpTable::build();
  const std::set<std::string> followers = {
      "activation",          "activation_backward",  "pooling", "pooling_backward", "batch_norm",
      "batch_norm_backward", "batch_norm_inference", "dropout", "dropout_backward"};
  std::set<std::string> kept;
  for (const OpDef& op : table.all()) {
    if (!followers.contains(op.name)) continue;
    for (const Sample& sample : op.samples) {
      INFO("operator " << op.name << ", sample '" << sample.title << "'");
      OpCall call = f32_call(op, sample, false);
      const std::vector<Tensor> inputs = sample_inputs(call, sample);
      const auto expected = evaluate(op, call.params, inputs);
      for (TensorDesc& input : call.inputs) {
        if (input.shape.rank() == 4) input.layout = by_16_channels(input.shape);
      }
      for (TensorDesc& output : call.outputs) output.any_layout = true;
      base::set_thread_team(1);
      const auto kernel = prepare(call);
      if (!kernel.ok()) {
        CHECK(kernel.status().code() == base::Errc::unimplemented);
        continue;
      }
      std::vector<Tensor> packed_inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        packed_inputs.push_back(packed(inputs[i], call.inputs[i].layout));
      }
      const auto layouts = kernel.value()->output_layouts();
      std::vector<Tensor> outputs;
      for (std::size_t o = 0; o < call.outputs.size(); ++o) {
        outputs.emplace_back(call.outputs[o].dtype, call.outputs[o].shape, layouts.at(o));
      }
      if (call.inputs[0].shape.rank() == 4) {
        CHECK(layouts[0] == by_16_channels(call.outputs[0].shape));
        kept.insert(op.name);
      }
      run_kernel(*kernel.value(), packed_inputs, outputs, {});
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        CHECK(distance(unpacked(outputs[o]), expected[o]) <= 1e-5);
        if (!outputs[o].layout.is_dense()) CHECK(padding_is_zero(outputs[o]));
      }
    }
  }
  CHECK(kept.size() + 2 == followers.size());  // dropout's samples have other ranks, see below
}

TEST_CASE("convolutions and products run in oneDNN, on layouts it likes", "[layout]") {
  const OpTable table = OpTable::build();
  for (const OpDef& op : table.all()) {
    if (!op.name.starts_with("convolution") && !op.name.starts_with("fully_connected")) continue;
    for (const Sample& sample : op.samples) {
      for (const bool any : {false, true}) {
        INFO("operator " << op.name << ", sample '" << sample.title << "', any " << any);
        const auto kernel = prepare(f32_call(op, sample, any));
        REQUIRE(kernel.ok());
        CHECK(kernel.value()->name().starts_with("onednn:"));
      }
    }
  }
}

TEST_CASE("a prepared kernel asked again with its own layouts takes them", "[layout]") {
  const OpTable table = OpTable::build();
  for (const OpDef& op : table.all()) {
    if (op.kernels[0].name != "onednn") continue;
    for (const Sample& sample : op.samples) {
      INFO("operator " << op.name << ", sample '" << sample.title << "'");
      OpCall call = f32_call(op, sample, true);
      const auto free_choice = op.kernels[0].prepare(call);
      if (!free_choice.ok()) continue;
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        call.inputs[i].layout = free_choice.value()->input_layouts().at(i);
        call.inputs[i].any_layout = false;
      }
      for (std::size_t o = 0; o < call.outputs.size(); ++o) {
        call.outputs[o].layout = free_choice.value()->output_layouts().at(o);
        call.outputs[o].any_layout = false;
      }
      const auto again = op.kernels[0].prepare(call);
      INFO(again.status().to_string());
      REQUIRE(again.ok());
      CHECK(again.value()->name() == free_choice.value()->name());
    }
  }
}

TEST_CASE("reorder converts between dense and blocked layouts and back", "[layout]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("reorder");
  Layout weights;  // OIhw16i16o
  weights.kind = Layout::Kind::blocked;
  weights.order = {0, 1, 2, 3};
  weights.blocks = {{1, 16}, {0, 16}};
  Layout last;  // nhwc
  last.kind = Layout::Kind::blocked;
  last.order = {0, 2, 3, 1};
  for (const Shape& shape : {Shape{3, 17, 2, 5}, Shape{1, 1, 1, 1}, Shape{16, 32, 1, 1}}) {
    const Tensor dense = random_tensor(DType::f32, shape, "reorder", -1, 1);
    for (const Layout& form :
         {by_16_channels(shape), layout_for(weights, shape), layout_for(last, shape)}) {
      for (const KernelDef& candidate : op.kernels) {
        INFO(shape.to_string() << " " << form.to_string() << " " << candidate.name);
        auto call = make_call(op, {}, {{DType::f32, shape, {}, false}});
        REQUIRE(call.ok());
        call.value().outputs[0].layout = form;
        const auto there = candidate.prepare(call.value());
        std::swap(call.value().inputs[0].layout, call.value().outputs[0].layout);
        const auto back = candidate.prepare(call.value());
        if (!there.ok() || !back.ok()) {
          // An order that only moves axes of one element is dense to oneDNN.
          CHECK(candidate.name == "onednn");
          CHECK(shape[2] * shape[3] == 1);
          CHECK(form.blocks.empty());
          continue;
        }
        const Tensor blocked(DType::f32, shape, form);
        const Tensor again(DType::f32, shape);
        run_kernel(*there.value(), {dense}, {blocked}, {});
        CHECK(blocked.same_bits(packed(dense, form)));
        run_kernel(*back.value(), {blocked}, {again}, {});
        CHECK(again.same_bits(dense));
      }
    }
  }
}

TEST_CASE("dropout's mask does not depend on the layout", "[dropout]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("dropout");
  const Shape shape{2, 18, 3, 3};
  const Tensor data = random_tensor(DType::f32, shape, "dropout", 1, 2);
  const auto expected = evaluate(table, "dropout", {data});
  auto call = make_call(op, parse_params(op, {}).value(), describe({data}));
  REQUIRE(call.ok());
  call.value().inputs[0].layout = by_16_channels(shape);
  for (TensorDesc& output : call.value().outputs) output.any_layout = true;
  const auto kernel = prepare(call.value());
  REQUIRE(kernel.ok());
  const Tensor output(DType::f32, shape, by_16_channels(shape));
  const Tensor mask(DType::u8, shape, by_16_channels(shape));
  run_kernel(*kernel.value(), {packed(data, output.layout)}, {output, mask}, {});
  CHECK(unpacked(output).same_bits(expected[0]));
  CHECK(unpacked(mask).same_bits(expected[1]));
  CHECK(padding_is_zero(output));
  CHECK(padding_is_zero(mask));
}

TEST_CASE("dropout with p = 0 keeps all, with p = 1 nothing", "[dropout]") {
  const OpTable table = OpTable::build();
  const Tensor data = random_tensor(DType::f64, {50}, "dropout", 1, 2);
  CHECK(evaluate(table, "dropout", {data}, {{"p", "0"}})[0].same_bits(data));
  CHECK(distance(evaluate(table, "dropout", {data}, {{"p", "1"}})[0],
                 random_tensor(DType::f64, {50}, "zero", 0, 0)) == 0);
}

}  // namespace
}  // namespace troupe::ops
