// SPDX-License-Identifier: Apache-2.0
// Network operators beyond the conformance test: which kernels take which calls, layouts, labels,
// prediction forms, reshape codes.
#include <algorithm>
#include <cmath>
#include <set>

#include "ops/roofline.h"
#include "ops/support/layout_map.h"
#include "tests/ops/cases.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

TEST_CASE("operators between convolutions keep the layout that these like", "[layout][onednn]") {
  const OpTable table = OpTable::build();
  const std::int64_t block = vector_lanes() >= 16 ? 16 : 8;  // channels, as oneDNN has them here
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
        if (input.shape.rank() == 4) input.layout = by_channels(input.shape, block);
      }
      for (TensorDesc& output : call.outputs) output.any_layout = true;
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
        outputs.emplace_back(call.outputs[o].dtype, call.outputs[o].shape,
                             layouts.empty() ? Layout() : layouts.at(o));
      }
      if (call.inputs[0].shape.rank() == 4) {
        CHECK(layouts.at(0) == by_channels(call.outputs[0].shape, block));
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

TEST_CASE("convolutions run in oneDNN, on layouts it likes, or as products, like all products",
          "[layout][onednn]") {
  const OpTable table = OpTable::build();
  for (const OpDef& op : table.all()) {
    const bool product = op.name.starts_with("fully_connected");
    if (!op.name.starts_with("convolution") && !product) continue;
    for (const Sample& sample : op.samples) {
      for (const bool any : {false, true}) {
        INFO("operator " << op.name << ", sample '" << sample.title << "', any " << any);
        const auto kernel = prepare(f32_call(op, sample, any));
        REQUIRE(kernel.ok());
        const std::string name = kernel.value()->name();
        INFO(name);
        const bool fast = name.starts_with("onednn:") || name == "simd:patches" ||
                          (any && name == "simd:winograd");
        CHECK((product ? name.starts_with("simd:product") : fast));
      }
    }
  }
}

TEST_CASE("a kernel that is made again has the name that it had", "[onednn]") {
  const OpTable table = OpTable::build();
  // Windows as large as the image: oneDNN's convolution is a product of matrices, and the library
  // keeps it for the next one.
  const Attributes attributes = {{"kernel", "(12, 12)"}, {"num_filter", "7"}, {"no_bias", "True"}};
  const OpCall call =
      free_call(table, "convolution", {{8, 16, 12, 12}, {7, 16, 12, 12}}, attributes);
  for (const KernelDef& candidate : call.op->kernels) {
    const auto first = candidate.prepare(call), second = candidate.prepare(call);
    REQUIRE(first.ok() == second.ok());
    if (!first.ok()) continue;
    CHECK((*first)->name() == (*second)->name());
    CHECK((*first)->keeps_sample_bits() == (*second)->keeps_sample_bits());
  }
}

TEST_CASE("a prepared kernel asked again with its own layouts takes them", "[layout][onednn]") {
  const OpTable table = OpTable::build();
  for (const OpDef& op : table.all()) {
    const auto onednn = std::ranges::find(op.kernels, "onednn", &KernelDef::name);
    if (onednn == op.kernels.end()) continue;
    for (const Sample& sample : op.samples) {
      INFO("operator " << op.name << ", sample '" << sample.title << "'");
      OpCall call = f32_call(op, sample, true);
      const auto free_choice = onednn->prepare(call);
      if (!free_choice.ok()) continue;
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        call.inputs[i].layout = free_choice.value()->input_layouts().at(i);
        call.inputs[i].any_layout = false;
      }
      for (std::size_t o = 0; o < call.outputs.size(); ++o) {
        call.outputs[o].layout = free_choice.value()->output_layouts().at(o);
        call.outputs[o].any_layout = false;
      }
      const auto again = onednn->prepare(call);
      INFO(again.status().to_string());
      REQUIRE(again.ok());
      CHECK(again.value()->name() == free_choice.value()->name());
    }
  }
}

TEST_CASE("a bias gradient over many rows keeps its digits", "[product]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("fully_connected_backward_weights");
  constexpr std::int64_t kRows = 100'000;
  const Tensor gradient = random_tensor(DType::f32, {1, kRows, 3}, "gradient", 0.1, 0.1);
  const Tensor data = random_tensor(DType::f32, {1, kRows, 2}, "data", -1, 1);
  const Attributes attributes = {{"num_hidden", "3"}, {"flatten", "False"}};
  const Params params = parse_params(op, attributes).value();
  const std::vector<Tensor> inputs = {gradient, data};
  const OpCall call = make_call(op, params, describe(inputs)).value();
  const auto kernel = prepare(call).value();
  CHECK(kernel->name().starts_with("simd:product"));
  const auto outputs = make_outputs(call);
  run_kernel(*kernel, inputs, outputs, {});
  // Added one after the other in f32 they give 9998.6.
  for (std::int64_t i = 0; i < 3; ++i) CHECK(outputs[1].at(i) == Approx(1e4).epsilon(4e-6));
}

TEST_CASE("reorder converts between dense and blocked layouts and back", "[layout][onednn]") {
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
         {by_channels(shape), layout_for(weights, shape), layout_for(last, shape)}) {
      for (const KernelDef& candidate : op.kernels) {
        // For Winograd's weights, and for bf16, alone.
        if (candidate.name == "simd" || candidate.name == "onednn-bf16") continue;
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
  call.value().inputs[0].layout = by_channels(shape);
  for (TensorDesc& output : call.value().outputs) output.any_layout = true;
  const auto kernel = prepare(call.value());
  REQUIRE(kernel.ok());
  const Tensor output(DType::f32, shape, by_channels(shape));
  const Tensor mask(DType::u8, shape, by_channels(shape));
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

/// The gradients of an operator's inputs when the gradient of its visible outputs is ones.
std::vector<std::optional<Tensor>> gradients_of(const OpTable& table, std::string_view name,
                                                const std::vector<Tensor>& inputs,
                                                const Attributes& attributes = {}) {
  const OpDef& op = table.at(name);
  const Params params = parse_params(op, attributes).value();
  const auto outputs = evaluate(op, params, inputs);
  std::vector<Tensor> heads;
  for (int o = 0; o < op.visible_output_count(params); ++o) {
    heads.push_back(
        random_tensor(outputs[std::size_t(o)].dtype, outputs[std::size_t(o)].shape, "ones", 1, 1));
  }
  Evaluator builder(table, params, inputs, outputs, heads);
  const auto values = op.gradient(builder);
  REQUIRE(values.ok());
  std::vector<std::optional<Tensor>> result;
  for (const auto& value : values.value()) {
    result.push_back(value ? std::optional(builder.tensor(*value)) : std::nullopt);
  }
  return result;
}

TEST_CASE("elu and selu keep small numbers", "[nn]") {
  const OpTable table = OpTable::build();
  const std::vector<double> small = {-1e-20, -3e-8, -1e-6, -1e-3, -0.5,     -20,
                                     -100,   1e-20, 3,     -0.0,  -INFINITY};
  Tensor data(DType::f32, {static_cast<std::int64_t>(small.size())});
  for (std::size_t i = 0; i < small.size(); ++i) data.set(static_cast<std::int64_t>(i), small[i]);
  const OpDef& op = table.at("leaky_relu");
  for (const char* type : {"elu", "selu"}) {
    const Params params = parse_params(op, {{"act_type", type}, {"slope", "0.5"}}).value();
    const OpCall call = make_call(op, params, describe({data})).value();
    const auto kernel = prepare(call).value();
    CHECK(kernel->name() == "simd:exp");
    const auto outputs = make_outputs(call);
    run_kernel(*kernel, {data}, outputs, {});
    const bool self = std::string(type) == "selu";
    for (std::size_t i = 0; i < small.size(); ++i) {
      const double x = small[i];
      const double above = self ? 1.0507009873554805 : 1.0;
      const double depth = self ? 1.0507009873554805 * 1.6732632423543772 : 0.5;
      const double right = x > 0 ? above * x : depth * std::expm1(x);
      INFO(type << " of " << x);
      CHECK(outputs[0].at(static_cast<std::int64_t>(i)) == Approx(right).epsilon(3e-7));
    }
  }
}

TEST_CASE("softmax_output's gradient is that of the summed cross-entropy", "[loss]") {
  const OpTable table = OpTable::build();
  const Tensor data = random_tensor(DType::f64, {6, 10}, "data", -2, 2);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8}) {
    INFO(base::dtype_name(dtype));
    const Tensor label = random_tensor(dtype, {6}, "label", 0, 10, true);
    const auto output = gradients_of(table, "softmax_output", {data, label});
    const auto loss = gradients_of(table, "softmax_cross_entropy", {data, label});
    CHECK(distance(*output[0], *loss[0]) < 1e-12);
    CHECK_FALSE(output[1]);
    CHECK_FALSE(loss[1]);
  }
}

TEST_CASE("softmax_output with one label per position divides by the positions, as MXNet",
          "[loss]") {
  const OpTable table = OpTable::build();
  const Tensor data = random_tensor(DType::f64, {2, 4, 3, 2}, "data", -2, 2);
  const Attributes attributes = {{"multi_output", "True"}, {"grad_scale", "3"}};
  const auto probability = evaluate(table, "softmax", {data}, {{"axis", "1"}}).front();
  // MXNet 1.9.1 takes these three shapes.
  for (const Shape& shape : {Shape{2, 6}, Shape{2, 3, 2}, Shape{2, 1, 3, 2}}) {
    INFO(shape.to_string());
    const Tensor label = random_tensor(DType::i64, shape, "label", 0, 4, true);
    const auto gradient = gradients_of(table, "softmax_output", {data, label}, attributes);
    for (std::int64_t i = 0; i < data.elements(); ++i) {
      const std::int64_t own = std::int64_t(label.at(i / 24 * 6 + i % 6));
      const double target = i / 6 % 4 == own ? 1.0 : 0.0;
      CHECK(gradient[0]->at(i) == Approx((probability.at(i) - target) * 3.0 / 6.0).margin(1e-15));
    }
  }
  const OpDef& op = table.at("softmax_output");
  const Params params = parse_params(op, attributes).value();
  const auto label_for = [&](const Shape& data_shape, const Shape& label) -> base::Result<Shape> {
    std::vector<Shape> inputs = {data_shape, label};
    std::vector<Shape> outputs = {Shape::unknown()};
    TROUPE_TRY(infer_shapes(op, params, inputs, outputs));
    return inputs[1];
  };
  CHECK(label_for({2, 4, 3, 2}, Shape::unknown()).value() == Shape{2, 6});
  CHECK(label_for({2, 4}, Shape::unknown()).value() == Shape{2, 1});
  CHECK(label_for({2, 4}, {2}).value() == Shape{2});
  CHECK(label_for({2, 4, -1, 2}, Shape::unknown()).value() == Shape{2, -1});
  CHECK(label_for({2, 4, 3, 2}, {2, 5}).status().text() ==
        "[softmax_output] label has shape (2, 5) where (2, 6) is expected");
}

TEST_CASE("labels: scaled, ignored, smoothed, out of range", "[loss]") {
  const OpTable table = OpTable::build();
  const Tensor data = random_tensor(DType::f64, {3, 4}, "data", -2, 2);
  Tensor label(DType::i64, {3});
  label.set(0, 1);
  label.set(1, 3);
  label.set(2, 0);
  const auto plain = gradients_of(table, "softmax_output", {data, label});
  const auto masked =
      gradients_of(table, "softmax_output", {data, label},
                   {{"use_ignore", "True"}, {"ignore_label", "3"}, {"grad_scale", "2"}});
  for (std::int64_t i = 0; i < 12; ++i) {
    CHECK(masked[0]->at(i) == (i / 4 == 1 ? 0.0 : 2 * plain[0]->at(i)));
  }
  for (const char* none : {"1e300", "-1e300", "9223372036854775808"}) {  // no label has this number
    const auto kept = gradients_of(table, "softmax_output", {data, label},
                                   {{"use_ignore", "True"}, {"ignore_label", none}});
    for (std::int64_t i = 0; i < 12; ++i) CHECK(kept[0]->at(i) == plain[0]->at(i));
  }
  const auto smooth =
      gradients_of(table, "softmax_output", {data, label}, {{"smooth_alpha", "0.3"}});
  CHECK(smooth[0]->at(1) - plain[0]->at(1) == Approx(0.3));
  CHECK(smooth[0]->at(0) - plain[0]->at(0) == Approx(-0.1));

  const OpDef& op = table.at("softmax_output_backward");
  const auto refused = [&](const Tensor& labels) {
    const auto call = make_call(op, parse_params(op, {}).value(), describe({data, labels}));
    const auto kernel = prepare(call.value());
    const Tensor result(DType::f64, {3, 4});
    const std::vector<base::TensorView> in = {data.view(), labels.view()};
    const std::vector<base::TensorView> out = {result.view()};
    base::SlotStore slots;
    const base::Status status =
        kernel.value()->run({.inputs = in, .outputs = out, .slots = &slots});
    CHECK(status.code() == base::Errc::invalid_argument);
    return status.text();
  };
  label.set(1, 4);
  CHECK(refused(label) == "label 4 at position 1 is out of range for 4 classes");
  label.view().as<std::int64_t>()[1] = INT64_MIN;
  CHECK(refused(label) == "label -9223372036854775808 at position 1 is out of range for 4 classes");
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor between(dtype, {3});
    for (const std::int64_t row : {0, 2}) between.set(row, 0);
    between.set(1, 1.5);
    CHECK(refused(between) == "label 1.5 at position 1 is none of the 4 classes");
  }
}

TEST_CASE("relu lets NaN pass and ends gradients, as PyTorch's", "[activation][nan]") {
  const OpTable table = OpTable::build();
  const Attributes relu = {{"act_type", "relu"}};
  const auto tensor = [](const std::vector<double>& values) {
    Tensor made(DType::f32, {std::int64_t(values.size())});
    for (std::size_t i = 0; i < values.size(); ++i) made.set(std::int64_t(i), values[i]);
    return made;
  };
  // PyTorch 2 gives these numbers.
  const std::vector<double> data = {NAN, 1, -1, 0, INFINITY, -INFINITY};
  const std::vector<double> gradient = {2, 3, NAN, INFINITY, NAN, 1};
  const Tensor output = tensor({NAN, 1, 0, 0, INFINITY, 0});
  const Tensor passed = tensor({2, 3, 0, 0, NAN, 0});
  for (const bool reference : {false, true}) {
    const auto run = [&](std::string_view name, const std::vector<Tensor>& inputs) {
      const OpDef& op = table.at(name);
      OpCall call = make_call(op, parse_params(op, relu).value(), describe(inputs)).value();
      call.reference_only = reference;
      const auto kernel = prepare(call).value();
      CHECK(kernel->name() == (reference ? "reference" : "simd"));
      const auto outputs = make_outputs(call);
      run_kernel(*kernel, inputs, outputs, {});
      return outputs[0];
    };
    CHECK(distance(run("activation", {tensor(data)}), output) == 0.0);
    CHECK(distance(run("activation_backward", {tensor(gradient), output}), passed) == 0.0);
  }
}

TEST_CASE("metrics are sums with weights", "[loss]") {
  const OpTable table = OpTable::build();
  Tensor probability(DType::f32, {2, 3});
  for (std::int64_t i = 0; i < 6; ++i)
    probability.set(i, std::vector{.2, .5, .3, .1, .1, .8}[std::size_t(i)]);
  Tensor label(DType::f32, {2});
  label.set(0, 1);
  label.set(1, 0);
  const auto accuracy = evaluate(table, "accuracy_count", {probability, label});
  CHECK(accuracy[0].at(0) == 1.0);
  CHECK(accuracy[1].at(0) == 2.0);
  const auto loss = evaluate(table, "cross_entropy_sum", {probability, label});
  CHECK(loss[0].at(0) == Approx(-std::log(0.5) - std::log(0.1)));
  CHECK(loss[1].at(0) == 2.0);
  for (const std::int64_t place : {0, 1, 2}) {  // a row without a greatest score is never right
    const double score = probability.at(place);
    probability.set(place, std::nan(""));
    CHECK(evaluate(table, "accuracy_count", {probability, label})[0].at(0) == 0.0);
    probability.set(place, score);
  }
}

TEST_CASE("prediction forms drop what training needs", "[predict]") {
  const OpTable table = OpTable::build();
  const auto predict = [&](std::string_view name, const std::vector<Tensor>& inputs,
                           const Attributes& attributes) {
    const OpDef& op = table.at(name);
    const Params params = parse_params(op, attributes).value();
    Evaluator builder(table, params, inputs, {}, {});
    const auto values = op.predict_form(builder);
    REQUIRE(values.ok());
    REQUIRE(values.value().size() >= std::size_t(op.visible_output_count(params)));
    REQUIRE(values.value().size() <= op.outputs(params).size());
    return builder.tensor(values.value()[0]);
  };
  const Tensor data = random_tensor(DType::f64, {2, 3, 4, 4}, "data", -1, 1);
  CHECK(predict("dropout", {data}, {}).same_bits(data));
  const Attributes window = {{"kernel", "(2, 2)"}};
  CHECK(
      predict("pooling", {data}, window).same_bits(evaluate(table, "pooling", {data}, window)[0]));

  const Tensor label = random_tensor(DType::f64, {2}, "label", 0, 3, true);
  CHECK(predict("softmax_output", {data, label}, {})
            .same_bits(evaluate(table, "softmax_output", {data, label})[0]));

  // batch_norm with the batch's own statistics as running ones predicts what training gives.
  const Tensor gamma = random_tensor(DType::f64, {3}, "gamma", 0.5, 1.5);
  const Tensor beta = random_tensor(DType::f64, {3}, "beta", -1, 1);
  const Tensor unread(DType::f64, {3});  // NaN: training must not read the running statistics
  const Attributes free_gamma = {{"fix_gamma", "False"}};
  const auto trained =
      evaluate(table, "batch_norm", {data, gamma, beta, unread, unread}, free_gamma);
  const Tensor predicted =
      predict("batch_norm", {data, gamma, beta, trained[1], trained[2]}, free_gamma);
  CHECK(distance(predicted, trained[0]) < 1e-14);
}

TEST_CASE("reshape follows MXNet's codes and explains misfits", "[reshape]") {
  const OpTable table = OpTable::build();
  const OpDef& op = table.at("Reshape");
  const auto target = [&](const Shape& data, const char* codes, const char* reverse = "False") {
    const auto params = parse_params(op, {{"shape", codes}, {"reverse", reverse}});
    REQUIRE(params.ok());
    std::vector<Shape> inputs = {data};
    std::vector<Shape> outputs = {Shape::unknown()};
    const base::Status status = infer_shapes(op, params.value(), inputs, outputs);
    return status.ok() ? outputs[0].to_string() : status.text();
  };
  CHECK(target({2, 3, 4}, "(4, 0, 2)") == "(4, 3, 2)");
  CHECK(target({2, 3, 4}, "(6, 1, -1)") == "(6, 1, 4)");
  CHECK(target({2, 3, 4}, "(-2, 1, 1)") == "(2, 3, 4, 1, 1)");
  CHECK(target({2, 3, 4}, "(-3, 4)") == "(6, 4)");
  CHECK(target({2, 3, 4}, "(-4, 1, 2, -2)") == "(1, 2, 3, 4)");
  CHECK(target({2, 3, 4}, "(2, -4, -1, 3, -2)") == "(2, 1, 3, 4)");
  CHECK(target({10, 5, 4}, "(-1, 0)") == "(40, 5)");
  CHECK(target({0, 3, 4}, "(0, -1)") == "(0, 12)");  // no samples
  CHECK(target({0, 3, 4}, "(0, -1, 2)") == "(0, 6, 2)");
  CHECK(target({0, 3, 4}, "(0, -1, 5)") ==
        "[reshape] data of shape (0, 3, 4) cannot become (0, -1, 5): no extent fits for -1");
  CHECK(target({0, 6}, "(3, -1)") == "(3, 0)");
  CHECK(target({10, 5, 4}, "(-1, 0)", "True") == "(50, 4)");
  CHECK(target({2, 3, 4}, "(5, -1)") ==
        "[reshape] data of shape (2, 3, 4) cannot become (5, -1): no extent fits for -1");
  CHECK(target({2, 3}, "(7,)") ==
        "[reshape] data of shape (2, 3) has 6 elements, shape (7,) has 7");
  CHECK(target({2, 3}, "(-1, -1)") ==
        "[reshape] data of shape (2, 3) cannot become (-1, -1): more than one -1");
  CHECK(target({2, 3}, "(2147483647, 2147483647, 2147483647)") ==
        "[reshape] data of shape (2, 3) cannot become (2147483647, 2147483647, 2147483647): too "
        "many elements");
}

TEST_CASE("shapes of weights follow from data, and errors name both", "[shapes]") {
  const OpTable table = OpTable::build();
  const auto infer = [&](std::string_view name, const Attributes& attributes,
                         std::vector<Shape> inputs) {
    return inferred(table, name, attributes, std::move(inputs));
  };
  // Parameters as MXNet's files have them.
  CHECK(infer("Convolution",
              {{"kernel", "(5, 5)"},
               {"num_filter", "20"},
               {"workspace", "1024"},
               {"cudnn_tune", "off"},
               {"layout", "NCHW"}},
              {Shape{32, 1, 28, 28}}) == "(32, 1, 28, 28) (20, 1, 5, 5) (20,) -> (32, 20, 24, 24)");
  CHECK(infer("FullyConnected", {{"num_hidden", "500"}}, {Shape{32, 50, 4, 4}}) ==
        "(32, 50, 4, 4) (500, 800) (500,) -> (32, 500)");
  CHECK(infer("BatchNorm", {{"eps", "2e-05"}}, {Shape{-1, 8, 4, 4}}) ==
        "(?, 8, 4, 4) (8,) (8,) (8,) (8,) -> (?, 8, 4, 4)");
  CHECK(infer("Pooling", {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pool_type", "max"}},
              {Shape{32, 20, 24, 24}}) == "(32, 20, 24, 24) -> (32, 20, 12, 12)");
  CHECK(infer("SoftmaxOutput", {}, {Shape{32, 10}}) == "(32, 10) (32,) -> (32, 10)");
  CHECK(infer("Convolution", {{"kernel", "(9, 9)"}, {"num_filter", "2"}}, {Shape{1, 1, 4, 12}}) ==
        "[convolution] a window of 9 positions does not fit into 4 with padding 0");
  CHECK(infer("FullyConnected", {{"num_hidden", "5"}}, {Shape{2, 3}, Shape{5, 4}}) ==
        "[fully_connected] weight has shape (5, 4) where (5, 3) is expected");
}

TEST_CASE("oneDNN gives the same bits again with a team of two", "[team]") {
  const OpTable table = OpTable::build();
  for (const char* name : {"convolution_backward_weights", "fully_connected_backward_weights"}) {
    for (const Sample& sample : table.at(name).samples) {
      INFO(name << ", sample '" << sample.title << "'");
      OpCall call = f32_call(table.at(name), sample, false);
      call.team = 2;
      const auto kernel = prepare(call);
      REQUIRE(kernel.ok());
      const auto inputs = sample_inputs(call, sample);
      const auto first = make_outputs(call);
      run_kernel(*kernel.value(), inputs, first, {.team = 2});
      for (int again = 0; again < 3; ++again) {
        const auto outputs = make_outputs(call);
        run_kernel(*kernel.value(), inputs, outputs, {.team = 2});
        for (std::size_t o = 0; o < outputs.size(); ++o) CHECK(outputs[o].same_bits(first[o]));
      }
    }
  }
}

}  // namespace
}  // namespace troupe::ops
