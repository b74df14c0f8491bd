// SPDX-License-Identifier: Apache-2.0
// Predictions in parts of a batch have the bits of the whole, need less memory, and mix no samples.
#include "symbol/sub_batch.h"

#include <algorithm>
#include <limits>
#include <set>

#include "symbol/infer.h"
#include "symbol/layouts.h"
#include "symbol/passes.h"
#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Layout;
using base::Shape;

/// What a prediction gives, and how it was bound.
struct Predicted {
  std::vector<Bytes> outputs;
  ExecutorReport report;
};

Predicted predict(const Symbol& net, const Shape& data, ExecutorOptions options,
                  std::int64_t sub_batch, base::DType dtype = base::DType::f32) {
  options.train = false;
  options.sub_batch = sub_batch;
  Bound bound(net, data, options, true, {}, dtype);
  // Twice: the second pass finds what the first one left in the arena.
  for (int pass = 0; pass < 2; ++pass) REQUIRE(bound.executor->forward(false).ok());
  Predicted result{{}, bound.executor->report()};
  for (const ndarray::NDArray& output : bound.executor->outputs()) {
    result.outputs.push_back(bytes_of(output));
  }
  return result;
}

/// Parts of every size give the whole's bits.
void check_parts(const Symbol& net, const Shape& data, const ExecutorOptions& options = {},
                 base::DType dtype = base::DType::f32) {
  const Predicted whole = predict(net, data, options, data[0], dtype);
  CHECK(whole.report.sub_batch == 0);
  for (std::int64_t samples = 1; samples < data[0]; ++samples) {
    INFO("parts of " << samples << " of " << data[0] << " samples");
    const Predicted parts = predict(net, data, options, samples, dtype);
    CHECK(parts.outputs == whole.outputs);
    CHECK(parts.report.sub_batch <= samples);
    CHECK(parts.report.predict_bytes <= whole.report.predict_bytes);
    CHECK(parts.report.flops == Approx(whole.report.flops));
  }
}

/// Convolutions with a residual sum, and what is behind them.
Symbol residual(bool classified = true) {
  Composer c(table());
  const auto convolution = [&c](const std::string& name, const Symbol& data) {
    return c.call("convolution", name, {data},
                  {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "16"}});
  };
  const Symbol first = c.call("activation", "relu0", {convolution("conv0", c.variable("data"))},
                              {{"act_type", "relu"}});
  const Symbol second = c.call("batch_norm", "bn1", {convolution("conv1", first)});
  Symbol net = c.call("add", "sum", {second, first});
  net = c.call("pooling", "pool", {net},
               {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pool_type", "max"}});
  net = c.call("concat", "both", {net, c.call("lrn", "lrn", {net}, {{"nsize", "3"}})});
  if (!classified) return c.finish(net).value();
  net = c.call("fully_connected", "fc", {c.call("flatten", "flat", {net})}, {{"num_hidden", "5"}});
  return c.finish(c.call("softmax_output", "softmax", {net})).value();
}

TEST_CASE("parts of a batch give the bits of the whole") {
  check_parts(residual(), {7, 3, 8, 8});
  check_parts(residual(false), {4, 16, 8, 8});
  check_parts(residual(), {5, 3, 8, 8}, {.reference_only = true}, base::DType::f64);
  check_parts(residual(), {5, 3, 8, 8}, {.layouts = base::LayoutPolicy::dense});
  for (const MemoryMode mode : {MemoryMode::none, MemoryMode::in_place, MemoryMode::share}) {
    check_parts(residual(), {6, 3, 8, 8}, {.memory = mode});
  }
}

TEST_CASE("built-in networks predict the same in parts") {
  for (const char* name : {"lenet", "mlp"}) {
    INFO(name);
    const NetworkInfo* info = find_network(name);
    const Shape data{6, info->sample[0], info->sample[1], info->sample[2]};
    check_parts(make_network(table(), name).value(), data);
  }
  // Sums of 784 terms, which a kernel cuts into pieces that follow from the number of samples.
  const Symbol mlp = make_network(table(), "mlp").value();
  CHECK(predict(mlp, {128, 1, 28, 28}, {}, 32).outputs ==
        predict(mlp, {128, 1, 28, 28}, {}, 128).outputs);
  for (const char* name :
       {"alexnet", "vgg-a", "googlenet", "resnet18", "resnet50", "inception-bn", "mobilenet-v2"}) {
    INFO(name);
    const Symbol net = make_network(table(), name).value();
    const Shape data{6, 3, 64, 64};
    const Predicted whole = predict(net, data, {}, 6);
    const Predicted parts = predict(net, data, {}, 2);
    // Without AVX-512 oneDNN 3 has only gemm for AlexNet's image, whose sums hang on the number of
    // samples: then all that is behind it takes the whole batch.
    const auto first = std::ranges::find(parts.report.nodes, "convolution", &NodeReport::op);
    REQUIRE(first != parts.report.nodes.end());
    const bool gemm_first = first->kernel.find(":gemm:") != std::string::npos;
    CHECK(parts.report.sub_batch == (gemm_first ? 0 : 2));
    CHECK(parts.outputs == whole.outputs);
    CHECK(parts.report.predict_bytes <= whole.report.predict_bytes);
  }
}

TEST_CASE("what is reduced along the only axis has no samples") {
  Composer c(table());
  const Symbol first = c.call("exp", "e", {c.variable("data")});
  const Symbol fc = c.call("fully_connected", "fc", {first},
                           {{"num_hidden", "6"}, {"flatten", "False"}, {"no_bias", "True"}});
  check_parts(c.finish(c.call("exp", "last", {fc})).value(), {6}, {.fused = false});
}

TEST_CASE("an input without samples tells no batch, and nothing of it runs in parts") {
  Composer c(table());
  const auto chain = [&c](const std::string& name) {
    Symbol net = c.variable(name);
    for (int i = 0; i < 3; ++i) net = c.call("exp", name + std::to_string(i), {net});
    return net;
  };
  const Symbol chains[] = {chain("data"), chain("x")};
  const Symbol net = c.finish(Symbol::group(chains)).value();
  ExecutorOptions options;
  options.train = false;
  options.fused = false;
  options.sub_batch = 4;
  tests::TestRuntime test;
  const auto executor =
      Executor::bind(
          test.runtime, net,
          allocate_bindings(test.runtime, net, {{"data", {0, 64}}, {"x", {8, 64}}}).value(),
          options)
          .value();
  CHECK(executor->report().nodes_in_parts <= 3);
  REQUIRE(executor->forward(false).ok());
  CHECK(executor->outputs()[0].shape() == Shape{0, 64});
  CHECK(executor->outputs()[0].wait().ok());
  CHECK(executor->outputs()[1].wait().ok());
}

TEST_CASE("parts begin where their kernels can load") {
  ops::OpDef wide;
  const Symbol net = wide_exponentials(wide);
  CHECK(predict(net, {6, 400}, {.fused = false}, 2).report.sub_batch == 2);
  CHECK(predict(net, {6, 401}, {.fused = false}, 2).report.sub_batch ==
        0);  // samples of 1,604 bytes
}

TEST_CASE("parts run on a device with streams, in order") {
  tests::DelayedStream stream({base::DeviceKind::delayed, 0});
  const engine::EngineOptions engine_options{.streams = {&stream}};
  ExecutorOptions options{.device = {base::DeviceKind::delayed, 0}, .train = false};
  const Predicted whole = predict(residual(), {7, 3, 8, 8}, {}, 7);
  options.sub_batch = 2;
  Bound bound(residual(), {7, 3, 8, 8}, options, true, engine_options);
  for (int pass = 0; pass < 2; ++pass) REQUIRE(bound.executor->forward(false).ok());
  CHECK(bound.executor->report().sub_batch == 2);
  CHECK(bytes_of(bound.executor->outputs()[0]) == whole.outputs[0]);
}

TEST_CASE("a node that mixes samples takes the whole batch") {
  Composer c(table());
  Symbol net = c.variable("data");
  for (const char* name : {"conv1", "conv2", "conv3"}) {
    net = c.call("convolution", name, {net}, {{"kernel", "(3, 3)"}, {"num_filter", "16"}});
    net = c.call("activation", std::string(name) + "_relu", {net}, {{"act_type", "relu"}});
  }
  const auto bind = [&](const Symbol& last) {
    return predict(c.finish(last).value(), {6, 3, 9, 9}, {}, 2);
  };
  const Predicted mixed = bind(c.call("transpose", "turned", {net}, {{"axes", "(1, 0, 2, 3)"}}));
  CHECK(mixed.report.sub_batch == 2);
  CHECK(mixed.report.nodes_in_parts > 0);
  // All of it reads what would have to be read in parts.
  const Symbol turned =
      c.call("transpose", "first", {c.variable("data")}, {{"axes", "(3, 1, 2, 0)"}});
  CHECK(bind(turned).report.sub_batch == 0);
  const Symbol over_samples = c.call("softmax", "softmax", {c.variable("data")}, {{"axis", "0"}});
  CHECK(bind(over_samples).report.sub_batch == 0);
}

TEST_CASE("an error in one part is the output's, until a pass without it") {
  Bound bound(residual(), {4, 3, 8, 8}, {.sub_batch = 2, .train = false});
  CHECK(bound.executor->report().sub_batch == 2);
  // An input whose last writer failed.
  const ndarray::NDArray& data = bound.executor->arguments().at("data");
  const engine::Operation fail{.name = "fail", .overwrites = {&data.variable(), 1}};
  bound.test.engine->push(
      fail, [](engine::RunContext&) { return base::error(base::Errc::data_loss, "no data"); });
  REQUIRE(bound.executor->forward(false).ok());
  CHECK(mentions(bound.executor->outputs()[0].wait(), {"no data"}));
  fill(data, "data", 0.0, 1.0);
  REQUIRE(bound.executor->forward(false).ok());
  CHECK(bound.executor->outputs()[0].wait().ok());
}

TEST_CASE("small batches and small graphs stay whole unless asked") {
  CHECK(predict(residual(), {7, 3, 8, 8}, {}, kChosenSubBatch).report.sub_batch == 0);
  CHECK(predict(residual(), {1, 3, 8, 8}, {}, 1).report.sub_batch == 0);
  tests::TestRuntime test;
  const auto refused =
      Executor::bind(test.runtime, residual(),
                     make_bindings(test.runtime, residual(), {4, 3, 8, 8}), {.sub_batch = -1});
  CHECK(mentions(refused.status(), {"parts of -1 samples"}));
  const Shape large{16, 3, 128, 128};
  const ExecutorReport chosen = predict(residual(), large, {}, kChosenSubBatch).report;
  CHECK(chosen.sub_batch >= 4);
  CHECK(chosen.predict_bytes <= predict(residual(), large, {}, 16).report.predict_bytes / 2);
}

TEST_CASE("on a GPU no size of parts is chosen") {
  tests::TestRuntime test;
  const Graph graph = freeze(table(), residual().graph()).value();
  const Shape data{16, 3, 128, 128};
  const ValueShapes shapes = infer_shapes(graph, {{"data", data}}).value();
  const ValueDTypes dtypes = infer_dtypes(graph, {}, base::DType::f32).value();
  std::set<std::string> weights;
  for (const std::string& name : residual().list_parameters()) weights.insert(name);
  for (const std::string& name : residual().list_auxiliary_states()) weights.insert(name);
  const auto samples = [&](base::DeviceKind kind) {
    const PrepareOptions options{.train = false, .weights = &weights};
    PreparedGraph prepared = choose_layouts(test.runtime, graph, shapes, dtypes, options).value();
    for (NodePlan& plan : prepared.plans) plan.call.device = {kind, 0};
    return take_sub_batches(std::move(prepared), weights, kChosenSubBatch)
        .value()
        .sub_batch.samples;
  };
  CHECK(samples(base::DeviceKind::cpu) > 0);
  CHECK(samples(base::DeviceKind::cuda) == 0);
}

TEST_CASE("parts share the batch evenly, and the last overlaps the one before") {
  SubBatch sub{.batch = 7, .samples = 3};
  CHECK(sub.parts() == 3);
  CHECK(sub.first(0) == 0);
  CHECK(sub.first(1) == 3);
  CHECK(sub.first(2) == 4);
  CHECK(SubBatch{}.parts() == 1);
  const Layout blocked{.kind = Layout::Kind::blocked,
                       .order = {0, 1, 2, 3},
                       .blocks = {{1, 16}},
                       .padded = {7, 16, 4, 4}};
  CHECK(samples_in_line(blocked));
  CHECK(samples_in_line(Layout::dense()));
  CHECK(of_samples(blocked, 3).padded == Shape{3, 16, 4, 4});
  CHECK(of_samples(Shape{7, 2}, 3) == Shape{3, 2});
  Layout batch_inside = blocked;
  batch_inside.blocks = {{0, 4}};
  CHECK_FALSE(samples_in_line(batch_inside));
  Layout channels_first = blocked;
  channels_first.order = {1, 0, 2, 3};
  CHECK_FALSE(samples_in_line(channels_first));
}

}  // namespace
}  // namespace troupe::symbol
