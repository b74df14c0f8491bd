// SPDX-License-Identifier: Apache-2.0
// Executors: gradients against finite differences, equal bits however they run, sharing of arenas,
// accumulation, errors.
#include "symbol/executor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>

#include "ndarray/invoke.h"
#include "symbol/arena.h"
#include "tests/support/catch.h"
#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Errc;
using base::Shape;
using ndarray::NDArray;
using tests::TestRuntime;

/// d/dx of sum(head * f(x)) by central differences, next to backward()'s.
void check_gradients(const Symbol& net, const std::map<std::string, Shape>& shapes) {
  TestRuntime test;
  Bindings bindings = allocate_bindings(test.runtime, net, shapes, base::DType::f64).value();
  for (const auto& [name, argument] : bindings.arguments) {
    fill(argument, name, 0.3, 1.3);
    bindings.grad_req[name] = GradReq::write;
  }
  const auto executor = Executor::bind(test.runtime, net, std::move(bindings)).value();
  const NDArray head =
      NDArray::zeros(test.runtime, executor->outputs()[0].shape(), base::DType::f64).value();
  fill(head, "head", -1, 1);
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->backward({&head, 1}).ok());
  const auto objective = [&] {
    REQUIRE(executor->forward(true).ok());
    const std::vector<double> y = values(executor->outputs()[0]);
    const std::vector<double> h = values(head);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * h[i];
    return sum;
  };
  std::map<std::string, std::vector<double>> gradients;
  for (const auto& [name, gradient] : executor->gradients()) gradients[name] = values(gradient);
  for (const auto& [name, argument] : executor->arguments()) {
    std::vector<double> x = values(argument);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double middle = x[i];
      constexpr double kStep = 1e-5;
      double ends[2];
      for (int side = 0; side < 2; ++side) {
        x[i] = middle + (side == 0 ? -kStep : kStep);
        REQUIRE(argument.write(std::as_bytes(std::span<const double>(x))).ok());
        ends[side] = objective();
      }
      x[i] = middle;
      REQUIRE(argument.write(std::as_bytes(std::span<const double>(x))).ok());
      INFO(name << "[" << i << "]");
      CHECK(gradients[name][i] ==
            Approx((ends[1] - ends[0]) / (2 * kStep)).epsilon(1e-6).margin(1e-8));
    }
  }
}

TEST_CASE("gradients of small graphs equal finite differences") {
  Composer c(table());
  const Symbol x = c.variable("x"), y = c.variable("y"), w = c.variable("w");
  const Symbol product = c.call("multiply", "", {x, x});
  const Symbol e = c.call("exp", "", {c.call("multiply_scalar", "", {y}, {{"scalar", "0.5"}})});
  const Symbol z = c.call("divide", "z", {c.call("add", "", {product, e}), x});
  check_gradients(c.finish(z).value(), {{"x", {2, 3}}, {"y", {3}}});

  Symbol h = c.call("fully_connected", "fc1", Inputs{{x, w}, {}}, {{"num_hidden", "4"}});
  h = c.call("activation", "", {h}, {{"act_type", "tanh"}});
  const Symbol twice = c.call("add", "", {h, c.call("square", "", {h})});
  const Symbol all = c.call("add_n", "all", {twice, h, h}, {{"num_args", "3"}});
  check_gradients(c.finish(all).value(), {{"x", {3, 5}}});
  check_gradients(c.finish(c.call("softmax", "s", {all})).value(), {{"x", {2, 3}}});
}

TEST_CASE("outputs may be variables, repeat, or be used further") {
  TestRuntime test;
  Composer c(table());
  const Symbol x = c.variable("x");
  const Symbol y = c.call("square", "y", {x});
  const Symbol outputs[] = {y, x, y, c.call("add", "z", {y, x})};
  const Symbol net = Symbol::group(outputs);
  Bindings bindings;
  bindings.arguments["x"] = array(test, {2}, {3, 5});
  bindings.grad_req["x"] = GradReq::write;
  const auto executor = Executor::bind(test.runtime, net, bindings).value();
  for (bool train : {true, false}) {
    REQUIRE(executor->forward(train).ok());
    CHECK(values(executor->outputs()[0]) == std::vector<double>{9, 25});
    CHECK(values(executor->outputs()[1]) == std::vector<double>{3, 5});
    CHECK(values(executor->outputs()[2]) == std::vector<double>{9, 25});
    CHECK(values(executor->outputs()[3]) == std::vector<double>{12, 30});
  }
  // Each output has a head gradient of its own, though y is an output twice.
  const std::vector<NDArray> heads{array(test, {2}, {1, 1}), array(test, {2}, {10, 10}),
                                   array(test, {2}, {1000, 1000}), array(test, {2}, {100, 100})};
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->backward(heads).ok());
  CHECK(values(executor->gradients().at("x")) ==
        std::vector<double>{1101 * 6 + 110, 1101 * 10 + 110});
}

TEST_CASE("one gradient for two arguments goes to two arrays") {
  TestRuntime test;
  Composer c(table());
  const Symbol net = c.call("add", "s", {c.variable("a"), c.variable("b")});
  Bindings bindings;
  bindings.arguments = {{"a", array(test, {2}, {1, 2})}, {"b", array(test, {2}, {3, 4})}};
  bindings.grad_req = {{"a", GradReq::write}, {"b", GradReq::add}};
  bindings.gradients["b"] = array(test, {2}, {100, 100});
  const auto executor = Executor::bind(test.runtime, net, bindings).value();
  const NDArray head = array(test, {2}, {5, 6});
  for (int i = 0; i < 2; ++i) {
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward({&head, 1}).ok());
  }
  CHECK(values(executor->gradients().at("a")) == std::vector<double>{5, 6});
  CHECK(values(executor->gradients().at("b")) == std::vector<double>{110, 112});
}

TEST_CASE("planned, unplanned, serial, threaded and delayed runs agree to the bit") {
  const std::map<std::string, Shape> cases = {{"lenet", {3, 1, 28, 28}},
                                              {"tiny-bn", {4, 1, 12, 12}},
                                              {"resnet18", {2, 3, 32, 32}},
                                              {"inception-bn", {2, 3, 64, 64}}};
  for (const auto& each : cases) {
    INFO(each.first);
    const auto run = [&](ExecutorOptions options, bool threaded,
                         const engine::EngineOptions& engine = {}) {
      Bound bound(each.first, each.second, options, threaded, engine);
      Results results = bound.step(5);
      const Results again = bound.step(5);
      CHECK(results == again);
      return results;
    };
    for (bool reference : {false, true}) {
      if (reference && each.second[2] >= 32) continue;  // plain loops take long there
      ExecutorOptions options;
      options.reference_only = reference;
      const Results serial = run(options, false);
      CHECK(run(options, true) == serial);
      for (const MemoryMode memory :
           {MemoryMode::none, MemoryMode::in_place, MemoryMode::share, MemoryMode::both}) {
        options.memory = memory;
        CHECK(run(options, true) == serial);
      }
      tests::DelayedStream stream;
      engine::EngineOptions delayed;
      delayed.streams = {&stream};
      options.device = {base::DeviceKind::delayed, 0};
      CHECK(run(options, true, delayed) == serial);
    }
  }
}

TEST_CASE("blocked and dense layouts agree within rounding, and reorders are listed") {
  ExecutorOptions dense, chosen;
  dense.layouts = base::LayoutPolicy::dense;
  Bound a("lenet", {4, 1, 28, 28}, dense), b("lenet", {4, 1, 28, 28}, chosen);
  const Results x = a.step(), y = b.step();
  for (const auto& [name, bytes] : x) {
    INFO(name);
    CHECK(distance<float>(bytes, y.at(name)) < 1e-4);
  }
  CHECK(a.executor->report().reorders.empty());
  const auto& nodes = b.executor->report().nodes;
  const auto conv2 = std::find_if(nodes.begin(), nodes.end(),
                                  [](const NodeReport& node) { return node.name == "conv2"; });
  REQUIRE(conv2 != nodes.end());
  if (!conv2->kernel.starts_with("onednn"))
    return;  // a build without oneDNN has dense kernels only
  // Its weights and its output's way into the dense product change their layouts.
  const auto& reorders = b.executor->report().reorders;
  const auto listed = [&](std::string_view begin, std::string_view end) {
    return std::any_of(reorders.begin(), reorders.end(), [&](const std::string& line) {
      return line.starts_with(begin) && line.ends_with(end);
    });
  };
  CHECK(listed("conv2_weight dense -> ", " for conv2"));
  CHECK(listed("relu2_output ", " -> dense for flatten"));
}

TEST_CASE("planning shares memory, and says how much") {
  Bound bound("lenet", {32, 1, 28, 28});
  const ExecutorReport& report = bound.executor->report();
  CHECK(report.arena_bytes < report.unshared_bytes);
  CHECK(report.predict_bytes < report.arena_bytes);
  CHECK(report.parameters == 431'080);
  CHECK(report.external_bytes == (431'080 + 32 * 10) * sizeof(float));
  CHECK(report.in_place > 0);
  CHECK(report.flops > 32 * 4e6);
  CHECK(!report.nodes.empty());
  CHECK(bound.executor->dump().find("conv1") != std::string::npos);

  ExecutorOptions options;
  options.train = false;
  const Bound predicting("lenet", {32, 1, 28, 28}, options);
  const ExecutorReport& predict = predicting.executor->report();
  CHECK(predict.arena_bytes == report.predict_bytes);
  CHECK(predict.arena_bytes < predict.unshared_bytes);
  CHECK(predict.parameters == 0);
  CHECK(!allocate_bindings(bound.test.runtime, bound.net, {}).ok());
}

TEST_CASE("lenet in f64 on reference kernels equals finite differences") {
  ExecutorOptions options;
  options.reference_only = true;
  options.predict = false;
  Bound bound("lenet", {2, 1, 28, 28}, options, true, {}, base::DType::f64);
  Executor& executor = *bound.executor;
  bound.step();
  const auto loss = [&] {
    REQUIRE(executor.forward(true).ok());
    const std::vector<double> p = values(executor.outputs()[0]);
    const std::vector<double> label = values(executor.arguments().at("softmax_label"));
    double sum = 0;
    for (std::size_t i = 0; i < label.size(); ++i) {
      sum -= std::log(p[i * 10 + static_cast<std::size_t>(label[i])]);
    }
    return sum;
  };
  std::map<std::string, std::vector<double>> gradients;
  for (const auto& [name, gradient] : executor.gradients()) gradients[name] = values(gradient);
  for (const auto& [name, gradient] : gradients) {
    const NDArray& argument = executor.arguments().at(name);
    std::vector<double> w = values(argument);
    for (std::size_t i : {std::size_t{0}, w.size() / 2, w.size() - 1}) {
      const double middle = w[i];
      double ends[2];
      for (int side = 0; side < 2; ++side) {
        w[i] = middle + (side == 0 ? -1e-6 : 1e-6);
        REQUIRE(argument.write(std::as_bytes(std::span<const double>(w))).ok());
        ends[side] = loss();
      }
      w[i] = middle;
      REQUIRE(argument.write(std::as_bytes(std::span<const double>(w))).ok());
      INFO(name << "[" << i << "]");
      CHECK(gradient[i] == Approx((ends[1] - ends[0]) / 2e-6).epsilon(1e-5).margin(1e-7));
    }
  }
}

TEST_CASE("w -= eta * g runs on the same engine and trains") {
  Bound bound("mlp", {16, 1, 8, 8});
  Executor& executor = *bound.executor;
  std::map<std::string, NDArray> weights;
  for (const auto& [name, gradient] : executor.gradients()) {
    weights[name] = executor.arguments().at(name);
  }
  const auto error = [&] {
    const std::vector<float> p = executor.outputs()[0].to_vector<float>().value();
    const std::vector<float> label =
        executor.arguments().at("softmax_label").to_vector<float>().value();
    double sum = 0;
    for (std::size_t i = 0; i < label.size(); ++i) {
      sum -= std::log(p[i * 10 + static_cast<std::size_t>(label[i])]);
    }
    return sum;
  };
  REQUIRE(executor.forward(true).ok());
  const double before = error();
  for (int step = 0; step < 60; ++step) {
    REQUIRE(executor.forward(true).ok());
    REQUIRE(executor.backward().ok());
    for (auto& [name, weight] : weights) weight -= 0.02 * executor.gradients().at(name);
  }
  REQUIRE(executor.forward(false).ok());
  CHECK(error() < 0.5 * before);
}

TEST_CASE("gradients added over two micro-batches equal those of one batch") {
  const Symbol net = make_network(table(), "lenet").value();
  TestRuntime test;
  Bindings whole = make_bindings(test.runtime, net, {4, 1, 28, 28});
  Bindings half = make_bindings(test.runtime, net, {2, 1, 28, 28});
  for (auto& [name, request] : half.grad_req) request = GradReq::add;
  const NDArray data = whole.arguments.at("data"), label = whole.arguments.at("softmax_label");
  const auto one = Executor::bind(test.runtime, net, whole).value();
  const auto two = Executor::bind(test.runtime, net, half).value();
  REQUIRE(one->forward(true).ok());
  REQUIRE(one->backward().ok());
  for (std::int64_t part : {0, 2}) {
    REQUIRE(two->arguments().at("data").copy_from(data.slice(part, part + 2)).ok());
    REQUIRE(two->arguments().at("softmax_label").copy_from(label.slice(part, part + 2)).ok());
    REQUIRE(two->forward(true).ok());
    REQUIRE(two->backward().ok());
  }
  for (const auto& [name, gradient] : one->gradients()) {
    INFO(name);
    CHECK(distance<float>(bytes_of(gradient), bytes_of(two->gradients().at(name))) < 1e-5);
  }
}

TEST_CASE("executors of several batch sizes take turns in one arena") {
  const Symbol net = make_network(table(), "tiny-bn").value();
  TestRuntime test;
  Results alone;
  {
    const auto executor =
        Executor::bind(test.runtime, net, make_bindings(test.runtime, net, {3, 1, 12, 12})).value();
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward().ok());
    alone = results_of(*executor);
  }
  ExecutorOptions options;
  options.arena = std::make_shared<Arena>(test.runtime, base::Device{});
  const auto bind = [&](std::int64_t batch) {
    return Executor::bind(test.runtime, net, make_bindings(test.runtime, net, {batch, 1, 12, 12}),
                          options)
        .value();
  };
  const auto small = bind(3);
  REQUIRE(small->forward(true).ok());
  auto large = bind(9);
  CHECK(mentions(small->backward(), {"arena"}));
  CHECK(options.arena->bytes() == large->report().arena_bytes);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(large->forward(true).ok());
    REQUIRE(large->backward().ok());
    REQUIRE(small->forward(true).ok());
    REQUIRE(small->backward().ok());
    REQUIRE(large->forward(false).ok());
  }
  large.reset();  // its work may still run
  CHECK(results_of(*small) == alone);
}

TEST_CASE("random nodes follow seed, rank, step and name") {
  ExecutorOptions options;
  options.seed = 3;
  Bound bound("tiny-bn", {4, 1, 12, 12}, options);
  const Results first = bound.step(0);
  CHECK(bound.step(1) != first);
  CHECK(bound.step(0) == first);
  options.rank = 1;
  Bound other("tiny-bn", {4, 1, 12, 12}, options);
  CHECK(other.step(0) != first);
  ExecutorOptions given;  // dies before the engine, as its array must
  given.seed = 3;
  given.step = NDArray::zeros(other.test.runtime, {}, base::DType::i64).value();
  Bindings bindings = make_bindings(other.test.runtime, other.net, {4, 1, 12, 12});
  const auto shared =
      Executor::bind(other.test.runtime, other.net, std::move(bindings), given).value();
  REQUIRE(shared->forward(true).ok());
  REQUIRE(shared->backward().ok());
  CHECK(results_of(*shared) == first);
}

TEST_CASE("batch statistics are outputs, states are read in prediction only") {
  Bound bound("tiny-bn", {4, 1, 12, 12});
  Executor& executor = *bound.executor;
  CHECK(executor.batch_values().size() == 4);
  CHECK(executor.momenta().at("bn1_moving_mean") == 0.9);
  CHECK(executor.auxiliary().at("bn1_moving_var").to_vector<float>().value()[0] == 1.0F);
  const Results before = bound.step(0);
  REQUIRE(executor.forward(false).ok());
  const Bytes predicted = bytes_of(executor.outputs()[0]);
  fill(executor.auxiliary().at("bn1_moving_mean"), "other", 0.5, 1);
  CHECK(bound.step(0) == before);
  REQUIRE(executor.forward(false).ok());
  CHECK(bytes_of(executor.outputs()[0]) != predicted);
}

TEST_CASE("a bound optimizer writes its arguments, as the imperative call does") {
  TestRuntime test;
  const ops::Attributes attributes{{"momentum", "0.9"}, {"wd", "0.01"}};
  const Symbol net = Symbol::create(table(), "sgd_update", "sgd", Inputs{}, attributes).value();
  Bindings bindings = allocate_bindings(test.runtime, net, {{"sgd_weight", Shape{3}}}).value();
  std::vector<NDArray> copies;
  for (const std::string& name : net.list_arguments()) {
    fill(bindings.arguments.at(name), name, 0.5, 1);
    copies.push_back(bindings.arguments.at(name).copy());
  }
  const NDArray weight = bindings.arguments.at("sgd_weight");
  const NDArray momentum = bindings.arguments.at("sgd_momentum");
  const Bytes before = bytes_of(weight);
  bindings.outputs = {weight, momentum};
  ExecutorOptions options;
  options.predict = false;
  const auto executor = Executor::bind(test.runtime, net, bindings, options).value();
  ndarray::InvokeOptions in_place;
  in_place.outputs = {copies[0], copies[2]};
  for (int i = 0; i < 3; ++i) {
    REQUIRE(executor->forward(true).ok());
    REQUIRE(ndarray::invoke(test.runtime, "sgd_update", copies, attributes, in_place).ok());
  }
  CHECK(bytes_of(weight) != before);
  CHECK(bytes_of(weight) == bytes_of(copies[0]));
  CHECK(bytes_of(momentum) == bytes_of(copies[2]));
}

TEST_CASE("a monitor sees what every node computes, and changes no bit") {
  std::map<std::string, std::vector<float>> seen;  // outlives the engine
  std::atomic<bool> twice = false;
  TestRuntime test;
  const Symbol net = make_network(table(), "lenet").value();
  const Bindings bindings = make_bindings(test.runtime, net, {2, 1, 28, 28});
  ExecutorOptions options;
  options.layouts = base::LayoutPolicy::dense;
  options.monitor = [&](const std::string& name, const base::TensorView& value) {
    if (value.dtype != base::DType::f32) return;
    const auto* begin = static_cast<const float*>(value.data);
    std::vector<float> values(begin, begin + value.shape.elements());
    if (!seen.emplace(name, std::move(values)).second) twice = true;
  };
  const auto executor = Executor::bind(test.runtime, net, bindings, options).value();
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->backward().ok());
  for (const auto& [name, gradient] : executor->gradients()) REQUIRE(gradient.wait().ok());
  CHECK(!twice);
  const std::string output = net.list_outputs()[0];
  CHECK(executor->outputs()[0].to_vector<float>().value() == seen.at(output));
  for (const char* name : {"conv1_output", "pool1_output", "fc1_output", "fc2_output"}) {
    INFO(name);
    CHECK(seen.count(name) == 1);
  }
  options.monitor = nullptr;
  const auto unseen = Executor::bind(test.runtime, net, bindings, options).value();
  REQUIRE(unseen->forward(true).ok());
  CHECK(unseen->outputs()[0].to_vector<float>().value() == seen.at(output));

  options.monitor = [](const std::string&, const base::TensorView&) {};
  options.device = {base::DeviceKind::delayed, 0};
  CHECK(mentions(Executor::bind(test.runtime, net, bindings, options).status(), {"monitor"}));
}

TEST_CASE("an inner layer's outputs run only the nodes that they need") {
  std::vector<std::string> ran;  // outlives the engine
  TestRuntime test;
  const Symbol net = make_network(table(), "googlenet").value();
  const Symbol inner = net.internals().output("in3a_3x3_relu_output").value();
  // A node, what stands behind it, or in its place in a prediction.
  const auto is_of = [](const std::string& name, const std::string& node) {
    return name == node || name == node + "_relu" || name == node + "_indices" ||
           name == node + "_pooling";
  };
  // Of each node the layer needs: convolution, bias and rectifier in one, the two pools.
  const Names needed = {"conv1", "pool1",           "conv2_reduce", "conv2",
                        "pool2", "in3a_3x3_reduce", "in3a_3x3"};
  for (const bool train : {false, true}) {
    INFO(train);
    ran.clear();
    ExecutorOptions options;
    options.reference_only = true;  // no reorders
    options.monitor = [&](const std::string& name, const base::TensorView&) {
      ran.push_back(name.substr(0, name.find("_output")));
    };
    Bindings bindings = make_bindings(test.runtime, inner, {1, 3, 32, 32});
    const auto executor = Executor::bind(test.runtime, inner, bindings, options).value();
    REQUIRE(executor->forward(train).ok());
    REQUIRE(executor->outputs()[0].wait().ok());
    UNSCOPED_INFO(fmt::format("{}", fmt::join(ran, " ")));
    CHECK(ran.size() <= 2 * needed.size());
    for (const std::string& name : ran) {
      INFO(name);
      CHECK(std::any_of(needed.begin(), needed.end(),
                        [&](const std::string& of) { return is_of(name, of); }));
    }
    for (const std::string& of : needed) {
      INFO(of);
      CHECK(std::any_of(ran.begin(), ran.end(),
                        [&](const std::string& name) { return is_of(name, of); }));
    }
  }
}

TEST_CASE("bind and run report what is wrong") {
  TestRuntime test;
  const Symbol net = make_network(table(), "lenet").value();
  const auto bind = [&](Bindings bindings, const ExecutorOptions& options = {}) {
    return Executor::bind(test.runtime, net, std::move(bindings), options).status();
  };
  const Bindings good = make_bindings(test.runtime, net, {2, 1, 28, 28});
  Bindings bad = good;
  bad.arguments.erase("fc1_bias");
  CHECK(mentions(bind(bad), {"fc1_bias"}));
  bad = good;
  bad.arguments["nonsense"] = bad.arguments.at("data");
  CHECK(mentions(bind(bad), {"nonsense"}));
  bad = good;
  bad.arguments["conv2_weight"] = NDArray::zeros(test.runtime, {50, 20, 3, 3}).value();
  CHECK(mentions(bind(bad), {"conv2", "(50, 20, 3, 3)"}));
  bad = good;
  bad.grad_req["softmax_label"] = GradReq::write;
  CHECK(mentions(bind(bad), {"softmax_label"}));
  bad = good;
  bad.gradients["fc1_bias"] = NDArray::zeros(test.runtime, {3}).value();
  CHECK(mentions(bind(bad), {"(3,)"}));
  bad = good;
  bad.arguments["data"] = NDArray::zeros(test.runtime, {2, 1, 3, 3}).value();
  CHECK(!bind(bad).ok());
  bad = good;
  bad.outputs = {good.arguments.at("data"), good.arguments.at("data")};
  CHECK(mentions(bind(bad), {"1 outputs"}));
  ExecutorOptions elsewhere;
  elsewhere.device = {base::DeviceKind::cuda, 1};
  CHECK(mentions(bind(good, elsewhere), {"'conv1_bias' is on cpu", "not on cuda:1"}));
  const NDArray failed = NDArray::failed(base::error(base::Errc::data_loss, "lost"));
  ExecutorOptions unscaled, unstepped, idle;
  idle.train = idle.predict = false;
  CHECK(mentions(bind(good, idle), {"neither training nor prediction"}));
  unscaled.loss_scale = failed;
  CHECK(mentions(bind(good, unscaled), {"loss_scale", "lost"}));
  unscaled.loss_scale = NDArray::zeros(test.runtime, {1}, base::DType::f16).value();
  CHECK(mentions(bind(good, unscaled), {"the loss scale is f16 (1,), not f32 (n,)"}));
  unstepped.step = failed;
  CHECK(mentions(bind(good, unstepped), {"lost"}));
  bad = good;
  bad.outputs = {failed};
  CHECK(mentions(bind(bad), {"lost"}));

  const auto executor = Executor::bind(test.runtime, net, good).value();
  CHECK(mentions(executor->backward(), {"forward"}));
  REQUIRE(executor->forward(false).ok());
  CHECK(mentions(executor->backward(), {"forward"}));
  REQUIRE(executor->forward(true).ok());
  CHECK(mentions(executor->backward({&good.arguments.at("data"), 1}), {"0 head gradients"}));
  REQUIRE(executor->backward().ok());
  CHECK(!executor->backward().ok());
  ExecutorOptions predict;
  predict.train = false;
  Bindings no_label = good;
  no_label.arguments.erase("softmax_label");
  no_label.grad_req.clear();
  const auto eval = Executor::bind(test.runtime, net, no_label, predict).value();
  CHECK(eval->forward(false).ok());
  CHECK(mentions(eval->forward(true), {"training"}));
  CHECK(bytes_of(eval->outputs()[0]) == bytes_of(executor->outputs()[0]));
}

TEST_CASE("gradients in slices of one array do not keep an error in the scratch memory") {
  TestRuntime test;
  const Symbol net = make_network(table(), "lenet").value();
  Bindings bindings = make_bindings(test.runtime, net, {2, 1, 28, 28});
  std::int64_t elements = 0;
  for (const auto& [name, req] : bindings.grad_req) {
    elements += bindings.arguments.at(name).elements();
  }
  const NDArray all = NDArray::zeros(test.runtime, {elements}).value();
  std::int64_t begin = 0;
  for (const auto& [name, req] : bindings.grad_req) {
    const NDArray& argument = bindings.arguments.at(name);
    const std::int64_t end = begin + argument.elements();
    bindings.gradients[name] = all.slice(begin, end).reshape(argument.shape());
    begin = end;
  }
  const auto executor = Executor::bind(test.runtime, net, std::move(bindings)).value();
  REQUIRE(executor->report().scratch_bytes > 0);
  const auto step = [&] {
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward().ok());
  };
  step();
  const Bytes good = bytes_of(all);
  const NDArray& data = executor->arguments().at("data");
  const Bytes content = bytes_of(data);
  test.engine->push({.name = "fails", .writes = {&data.variable(), 1}}, [](engine::RunContext&) {
    return base::error(Errc::data_loss, "record 7 is damaged");
  });
  step();
  CHECK(mentions(all.wait(), {"record 7"}));
  REQUIRE(data.write(content).ok());
  REQUIRE(all.clear().ok());
  step();
  CHECK(all.wait().ok());
  CHECK(bytes_of(all) == good);
}

TEST_CASE("an error in a step reaches its results and the next step is clean") {
  Bound bound("mlp", {4, 1, 5, 5});
  Executor& executor = *bound.executor;
  const Results good = bound.step();
  const NDArray& data = executor.arguments().at("data");
  const Bytes content = bytes_of(data);
  const engine::Variable writes[] = {data.variable()};
  bound.test.engine->push({"fails", {}, writes, {}, 0}, [](engine::RunContext&) {
    return base::error(Errc::data_loss, "record 7 is damaged");
  });
  REQUIRE(executor.forward(true).ok());
  REQUIRE(executor.backward().ok());
  CHECK(executor.outputs()[0].wait().code() == Errc::data_loss);
  CHECK(mentions(executor.gradients().at("fc1_weight").wait(), {"record 7"}));
  REQUIRE(data.write(content).ok());
  CHECK(bound.step() == good);
}

}  // namespace
}  // namespace troupe::symbol
