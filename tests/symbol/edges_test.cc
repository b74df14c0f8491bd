// SPDX-License-Identifier: Apache-2.0
// Where passes met what they did not expect: arguments with names that binding gives, losses that
// are heads twice, operators that assign before others read, arrays of 16 bits, parts of one
// sample, files with operators of one name.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/float16.h"
#include "ndarray/invoke.h"
#include "symbol/arena.h"
#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::DType;
using base::Shape;
using ndarray::NDArray;
using tests::TestRuntime;

/// An executor for training over arrays of f64 with these values, one axis each.
struct Trained {
  Trained(const Symbol& net, const std::map<std::string, std::vector<double>>& arguments,
          const std::map<std::string, GradReq>& wanted) {
    Bindings bindings;
    for (const auto& [name, numbers] : arguments) {
      bindings.arguments[name] =
          array(test, Shape{static_cast<std::int64_t>(numbers.size())}, numbers);
    }
    bindings.grad_req = wanted;
    ExecutorOptions options;
    options.predict = false;
    auto made = Executor::bind(test.runtime, net, std::move(bindings), options);
    INFO(made.status().to_string());
    REQUIRE(made.ok());
    executor = std::move(made).value();
  }
  std::vector<double> gradient(const std::string& name, const std::vector<NDArray>& heads = {}) {
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward(heads).ok());
    return values(executor->gradients().at(name));
  }

  TestRuntime test;
  std::unique_ptr<Executor> executor;
};

TEST_CASE("arguments may have the names that binding gives to its own variables") {
  using Values = std::vector<double>;
  Composer c(table());
  const Symbol x = c.variable("x");
  const Symbol added = c.finish(c.call("multiply", "y", {x, c.variable("x_gradient_sum")})).value();
  Trained sums(added, {{"x", {2, 3}}, {"x_gradient_sum", {5, 7}}}, {{"x", GradReq::add}});
  const NDArray ones = array(sums.test, {2}, {1, 1});
  CHECK(sums.gradient("x", {ones}) == Values{5, 7});
  CHECK(sums.gradient("x", {ones}) == Values{10, 14});

  const Symbol square = c.call("multiply", "y", {x, x});
  const Symbol product = c.call("multiply", "z", {square, c.variable("y_output_head_gradient")});
  const Symbol both = c.finish(Symbol::group(std::vector<Symbol>{square, product})).value();
  Trained heads(both, {{"x", {3}}, {"y_output_head_gradient", {100}}}, {{"x", GradReq::write}});
  CHECK(heads.gradient("x", {array(heads.test, {1}, {1}), array(heads.test, {1}, {0})}) ==
        Values{6});
}

TEST_CASE("softmax_cross_entropy that is a head twice counts twice, as other heads do") {
  const auto gradients = [](std::size_t times) {
    Composer c(table());
    const Symbol loss =
        c.call("softmax_cross_entropy", "loss", {c.variable("data"), c.variable("label")});
    const Symbol net = c.finish(Symbol::group(std::vector<Symbol>(times, loss))).value();
    TestRuntime test;
    Bindings bindings;
    bindings.arguments["data"] = array(test, {1, 2}, {0, 0});
    bindings.arguments["label"] = array(test, {1}, {1});
    bindings.grad_req["data"] = GradReq::write;
    const auto executor = Executor::bind(test.runtime, net, std::move(bindings)).value();
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward().ok());
    return values(executor->gradients().at("data"));
  };
  CHECK(gradients(1) == std::vector<double>{0.5, -0.5});
  CHECK(gradients(2) == std::vector<double>{1, -1});
}

TEST_CASE("a convolution does not move behind an operator that overwrites its weight") {
  Composer c(table());
  const Symbol x = c.variable("x"), w = c.variable("w");
  const Symbol conv = c.call("convolution", "conv", Inputs{{x, w}, {}},
                             {{"kernel", "(1, 1)"}, {"num_filter", "1"}, {"no_bias", "True"}});
  const Symbol update = c.call("add_scaled", "update", {w, c.variable("g"), c.variable("f")});
  const Symbol sum = c.call("sum", "all", {update}, {{"axis", "()"}, {"keepdims", "True"}});
  const Symbol wide = c.call("broadcast_like", "wide", {sum, x});
  const Symbol y = c.call("activation", "y", {c.call("add_elemwise", "both", {conv, wide})},
                          {{"act_type", "relu"}});
  const Symbol net = c.finish(Symbol::group(std::vector<Symbol>{y, update})).value();
  for (const bool train : {true, false}) {
    TestRuntime test;
    Bindings bindings;
    bindings.arguments["x"] = array(test, {1, 1, 2, 2}, {1, 1, 1, 1});
    bindings.arguments["w"] = array(test, {1, 1, 1, 1}, {2});
    bindings.arguments["g"] = array(test, {1, 1, 1, 1}, {1});
    bindings.arguments["f"] = array(test, {}, {10});
    bindings.outputs = {array(test, {1, 1, 2, 2}, {0, 0, 0, 0}), bindings.arguments["w"]};
    ExecutorOptions options;
    options.train = train;
    options.predict = !train;
    const auto executor = Executor::bind(test.runtime, net, std::move(bindings), options).value();
    REQUIRE(executor->forward(train).ok());
    CHECK(values(executor->outputs()[0]) == std::vector<double>(4, 14.0));
    CHECK(values(executor->outputs()[1]) == std::vector<double>{12});
  }
}

/// Arrays of T, filled with numbers that follow from their names.
template <typename T>
void fill_narrow(const NDArray& to, const std::string& name, double low, double high) {
  const base::RandomKey key = base::random_key(1, name);
  std::vector<T> numbers;
  for (std::int64_t i = 0; i < to.elements(); ++i) {
    const auto words = base::philox(key, static_cast<std::uint64_t>(i), 0, 0);
    numbers.push_back(T(low + (high - low) * base::uniform_f64(words[0])));
  }
  REQUIRE(to.write(std::as_bytes(std::span<const T>(numbers))).ok());
}

TEST_CASE(
    "in arrays of 16 bits the gradient knows where a rectifier was zero, and what is "
    "recomputed has the kept one's bits") {
  Composer c(table());
  Symbol net = c.variable("data");
  for (const char* layer : {"1", "2", "3"}) {
    const std::string name = std::string("bn") + layer;
    net = c.call("batch_norm", name, {net}, {{"fix_gamma", "False"}});
    net = c.call("activation", name + "_relu", {net}, {{"act_type", "relu"}});
    net = c.call("square", name + "_square", {net});
  }
  net = c.finish(net).value();
  using T = base::BF16;
  const auto step = [&net](bool fused, Recompute recompute) {
    TestRuntime test;
    Bindings bindings =
        allocate_bindings(test.runtime, net, {{"data", {2, 16, 8, 8}}}, DType::bf16).value();
    for (const auto& [name, array] : bindings.arguments) {
      fill_narrow<T>(array, name, name == "data" ? 2.0 : 0.5, name == "data" ? 3.0 : 1.5);
      bindings.grad_req[name] = GradReq::write;
    }
    ExecutorOptions options;
    options.predict = false;
    options.fused = fused;
    options.recompute = recompute;
    const auto executor = Executor::bind(test.runtime, net, std::move(bindings), options).value();
    const NDArray head = NDArray::zeros(test.runtime, {2, 16, 8, 8}, DType::bf16).value();
    fill_narrow<T>(head, "head", 1.0, 2.0);
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward(std::vector<NDArray>{head}).ok());
    return results_of(*executor);
  };
  const Results kept = step(false, Recompute::none);
  CHECK(step(true, Recompute::none) == kept);
  for (const bool fused : {false, true}) {
    CHECK(step(fused, Recompute::cheap) == kept);
    CHECK(step(fused, Recompute::sqrt) == kept);
  }
}

TEST_CASE("a part of one sample is no place for what joins a value of all samples") {
  Composer c(table());
  const Symbol data =
      c.call("softmax", "whole", {c.call("exp", "e", {c.variable("data")})}, {{"axis", "1"}});
  const auto pooled = [&](const char* name, const char* type, const char* size, const Symbol& of) {
    return c.call("pooling", name, {of}, {{"kernel", size}, {"stride", size}, {"pool_type", type}});
  };
  const Symbol v = pooled("v", "max", "(4, 4)", data), w = pooled("w", "avg", "(4, 4)", data);
  const Symbol joined = c.call("concat", "joined", {v, w}, {{"num_args", "2"}, {"dim", "1"}});
  const Symbol large = c.call("upsampling", "large", {joined},
                              {{"scale", "4"}, {"sample_type", "nearest"}, {"num_args", "1"}});
  const Symbol wide = c.call("softmax", "wide", {large}, {{"axis", "1"}});
  const Symbol mixed =
      c.call("sum", "mixed", {pooled("top", "max", "(32, 32)", wide)}, {{"axis", "0"}});
  const Symbol other = c.call("softmax", "other", {v}, {{"axis", "0"}});
  const Symbol net = c.finish(Symbol::group(std::vector<Symbol>{mixed, other})).value();
  const auto predicted = [&net](std::int64_t sub_batch) {
    ExecutorOptions options;
    options.train = false;
    options.sub_batch = sub_batch;
    Bound bound(net, {2, 16, 32, 32}, options);
    REQUIRE(bound.executor->forward(false).ok());
    std::vector<Bytes> outputs;
    for (const NDArray& output : bound.executor->outputs()) outputs.push_back(bytes_of(output));
    CHECK(bound.executor->report().sub_batch == (sub_batch == 1 ? 1 : 0));
    return outputs;
  };
  CHECK(predicted(1) == predicted(2));
}

TEST_CASE("operators of one name in a file get names of their own") {
  const char* const text = R"({"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "w", "inputs": []},
    {"op": "FullyConnected", "name": "fc", "inputs": [[0, 0, 0], [1, 0, 0]],
     "attrs": {"num_hidden": "3", "no_bias": "True"}},
    {"op": "FullyConnected", "name": "fc", "inputs": [[2, 0, 0], [1, 0, 0]],
     "attrs": {"num_hidden": "3", "no_bias": "True"}},
    {"op": "exp", "name": "fc_1", "inputs": [[3, 0, 0]]}],
    "arg_nodes": [0, 1], "heads": [[4, 0, 0]]})";
  const auto net = Symbol::from_json(table(), text);
  INFO(net.status().to_string());
  REQUIRE(net.ok());
  Names names;
  for (const GraphNode& node : net->graph().nodes) names.push_back(node.name);
  CHECK(names == Names{"data", "w", "fc", "fc_2", "fc_1"});
}

TEST_CASE("a classifier's labels are f32 where its arrays have 16 bits") {
  TestRuntime test;
  const auto made = allocate_bindings(test.runtime, two_layers(), {{"data", {2, 5}}}, DType::bf16);
  INFO(made.status().to_string());
  REQUIRE(made.ok());
  CHECK(made->arguments.at("softmax_label").dtype() == DType::f32);
  CHECK(made->arguments.at("fc1_weight").dtype() == DType::bf16);

  Composer c(table());
  const Symbol label = c.call("reshape", "flat", {c.variable("label")}, {{"shape", "(-1,)"}});
  const Symbol net = c.finish(c.call("softmax_output", "out", {c.variable("data"), label})).value();
  const auto behind =
      allocate_bindings(test.runtime, net, {{"data", {2, 5}}, {"label", {2, 1}}}, DType::bf16);
  INFO(behind.status().to_string());
  REQUIRE(behind.ok());
  CHECK(behind->arguments.at("label").dtype() == DType::f32);
  CHECK(behind->arguments.at("data").dtype() == DType::bf16);
}

TEST_CASE("integers may be outputs several times, and as they were given") {
  TestRuntime test;
  Composer c(table());
  const Symbol whole = c.call("cast", "whole", {c.variable("data")}, {{"dtype", "int32"}});
  Bindings bindings;
  bindings.arguments["data"] = array(test, {3}, {1, -2, 3});
  const std::vector<std::int32_t> given{7, 1 << 30, -(1 << 30) - 1};
  bindings.arguments["labels"] =
      ndarray::NDArray::from<std::int32_t>(test.runtime, {3}, given).value();
  const Symbol net = Symbol::group(std::array{whole, whole, c.variable("labels")});
  const auto bound = Executor::bind(test.runtime, net, bindings);
  INFO(bound.status().to_string());
  REQUIRE(bound.ok());
  for (const bool train : {true, false}) {
    REQUIRE((*bound)->forward(train).ok());
    const std::vector<ndarray::NDArray>& outputs = (*bound)->outputs();
    const std::vector<std::int32_t> rounded{1, -2, 3};
    CHECK(outputs[0].to_vector<std::int32_t>().value() == rounded);
    CHECK(outputs[1].to_vector<std::int32_t>().value() == rounded);
    CHECK(outputs[2].to_vector<std::int32_t>().value() == given);
  }
}

TEST_CASE("what bind adds is not taken for a variable that has no array") {
  TestRuntime test;
  Composer c(table());
  const Symbol net =
      c.call("add_elemwise", "sum", {c.variable("data"), c.variable("data_gradient_sum")});
  Bindings bindings;
  bindings.arguments["data"] = array(test, {2}, {1, 2});
  bindings.grad_req["data"] = GradReq::add;
  CHECK(mentions(Executor::bind(test.runtime, net, bindings).status(),
                 {"'data_gradient_sum' has no array"}));
}

TEST_CASE("an executor that is only looked at has its memory on the host") {
  TestRuntime test;
  const base::Device delayed{base::DeviceKind::delayed, 0};
  tests::DelayedStream stream;
  engine::EngineOptions engine_options;
  engine_options.streams = {&stream};
  const auto engine = engine::make_threaded_engine(engine_options, test.clock);
  ndarray::Runtime runtime{*engine, test.storage, table(), test.kernels, test.clock};
  Bindings bindings;
  bindings.arguments["data"] = NDArray::zeros(runtime, base::Shape{2}).value();
  bindings.grad_req["data"] = GradReq::write;
  Composer c(table());
  const Symbol net = c.call("exp", "out", {c.variable("data")});
  ExecutorOptions options;
  options.device = delayed;
  options.plan_only = true;
  const auto executor = Executor::bind(runtime, net, bindings, options);
  REQUIRE(executor.ok());
  CHECK_FALSE((*executor)->report().nodes.empty());
  for (const NDArray& output : (*executor)->outputs()) CHECK(output.device() == base::Device{});
  CHECK((*executor)->forward(true).code() == base::Errc::failed_precondition);
  CHECK((*executor)->backward().code() == base::Errc::failed_precondition);
  CHECK((*executor)->set_step(1).code() == base::Errc::failed_precondition);
}

TEST_CASE("an arena of another device is refused") {
  TestRuntime test;
  Bindings bindings;
  bindings.arguments["data"] = array(test, {2}, {1, 2});
  ExecutorOptions options;
  options.arena = std::make_shared<Arena>(test.runtime, base::Device{base::DeviceKind::delayed, 0});
  Composer c(table());
  const Symbol net = c.call("exp", "out", {c.variable("data")});
  CHECK(mentions(Executor::bind(test.runtime, net, bindings, options).status(),
                 {"the arena is of delayed:0", "cpu:0"}));
}

TEST_CASE("arrays of unspecified content have the shapes and types of those with initial values") {
  TestRuntime test;
  const auto allocate = [&](Content content) {
    const Symbol net = make_network(table(), "tiny-bn", {}).value();
    const auto made =
        allocate_bindings(test.runtime, net, {{"data", {2, 1, 28, 28}}}, DType::f32, {}, content);
    INFO(made.status().to_string());
    REQUIRE(made.ok());
    return *made;
  };
  const Bindings initial = allocate(Content::initial), unspecified = allocate(Content::unspecified);
  const auto same = [](const auto& a, const auto& b) {
    return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
      return x.first == y.first && x.second.shape() == y.second.shape() &&
             x.second.dtype() == y.second.dtype();
    });
  };
  CHECK_FALSE(initial.auxiliary.empty());
  CHECK(same(initial.arguments, unspecified.arguments));
  CHECK(same(initial.auxiliary, unspecified.auxiliary));
}

TEST_CASE("shapes of Python 2, and a given shape before a declared one") {
  const auto shape = [](const char* text, const std::map<std::string, Shape>& given) {
    return Symbol::variable("v", {{"__shape__", text}}).infer_shapes(given);
  };
  CHECK(shape("(2L, 3L)", {}).value().arguments.front() == Shape{2, 3});
  CHECK(mentions(shape("(L, 3)", {}).status(), {"variable v", "__shape__"}));
  CHECK(shape("(1, 3)", {{"v", {32, 3}}}).value().arguments.front() == Shape{32, 3});
  CHECK(shape("(1, 3)", {{"v", {base::kUnknownDim, 3}}}).value().arguments.front() == Shape{1, 3});
  CHECK_FALSE(shape("(1, 3)", {{"v", {base::kUnknownDim, 4}}}).ok());
}

TEST_CASE("a step that no draw can have is refused") {
  Bound bound(two_layers(), {2, 5});
  CHECK(bound.executor->set_step((std::int64_t{1} << 48) - 1).ok());
  CHECK(mentions(bound.executor->set_step(-1), {"step -1"}));
  CHECK(mentions(bound.executor->set_step(std::int64_t{1} << 48), {"2^48 - 1"}));
}

TEST_CASE("a step is not written into bytes that are somebody else's too") {
  TestRuntime test;
  std::int64_t theirs = 3;
  const base::Buffer bytes(reinterpret_cast<std::byte*>(&theirs), sizeof theirs, {}, [] {});
  ExecutorOptions options;
  options.step = NDArray::from_buffer(test.runtime, bytes, {}, DType::i64, /*shared=*/true);
  const auto executor =
      Executor::bind(test.runtime, two_layers(),
                     allocate_bindings(test.runtime, two_layers(), {{"data", {2, 5}}}).value(),
                     options)
          .value();
  REQUIRE(executor->set_step(5).ok());
  CHECK(mentions(test.engine->wait(options.step.variable()), {"step", "shared"}));
  CHECK(theirs == 3);
}

TEST_CASE("head gradients that lead to nothing wanted are taken") {
  Composer c(table());
  const Symbol net = c.finish(c.call("exp", "e", {c.variable("x")})).value();
  Trained bound(net, {{"x", {1, 2}}}, {});
  REQUIRE(bound.executor->forward(true).ok());
  CHECK(bound.executor->backward(std::vector<NDArray>{array(bound.test, {2}, {1, 1})}).ok());
}

TEST_CASE("of outputs behind stop_gradient nobody needs a head gradient") {
  Composer c(table());
  const Symbol x = c.variable("x"), y = c.variable("y");
  const Symbol seen = c.call("BlockGrad", "seen", {c.call("square", "xx", {x})});
  const Symbol loss = c.call("softmax_cross_entropy", "loss", {y, c.variable("label")});
  const Symbol net = c.finish(Symbol::group(std::vector<Symbol>{loss, seen})).value();
  TestRuntime test;
  Bindings bindings;
  bindings.arguments = {{"x", array(test, {1}, {3})},
                        {"y", array(test, {1, 2}, {0, 0})},
                        {"label", array(test, {1}, {1})}};
  bindings.grad_req["y"] = GradReq::write;
  auto made = Executor::bind(test.runtime, net, std::move(bindings), {.predict = false});
  INFO(made.status().to_string());
  REQUIRE(made.ok());
  Executor& executor = **made;
  const NDArray one = array(test, {1}, {100});
  for (const std::vector<NDArray>& heads : {std::vector<NDArray>{}, {one}}) {
    REQUIRE(executor.forward(true).ok());
    REQUIRE(executor.backward(heads).ok());
    CHECK(values(executor.gradients().at("y")) == std::vector<double>{0.5, -0.5});
  }
  REQUIRE(executor.forward(true).ok());
  CHECK(mentions(executor.backward(std::vector<NDArray>{one, one}), {"takes 1 head gradients"}));
}

/// Outputs: before(x, w), w + f * g in w's place, behind(y, w); all arrays of ones.
struct ReadAroundUpdate {
  explicit ReadAroundUpdate(const Shape& image) {
    Composer c(table());
    const Symbol w = c.variable("w");
    const auto conv = [&](const char* name, const char* data) {
      const ops::Attributes same = {
          {"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "32"}, {"no_bias", "True"}};
      return c.call("convolution", name, Inputs{{c.variable(data), w}, {}}, same);
    };
    const Symbol before = conv("before", "x");
    const Symbol update = c.call("add_scaled", "update", {w, c.variable("g"), c.variable("f")});
    const Symbol behind = conv("behind", "y");
    net = c.finish(Symbol::group(std::vector<Symbol>{before, update, behind})).value();
    const Shape weight{32, 32, 3, 3};
    for (const char* name : {"x", "y"}) bindings.arguments[name] = ones(image);
    for (const char* name : {"w", "g"}) bindings.arguments[name] = ones(weight);
    bindings.arguments["f"] = ones({});
    bindings.outputs = {ones(image), bindings.arguments["w"], ones(image)};
  }
  NDArray ones(const Shape& shape) {
    const std::vector<float> numbers(static_cast<std::size_t>(shape.elements()), 1);
    return NDArray::from<float>(test.runtime, shape, numbers).value();
  }

  /// Of the convolutions' corners with a weight of ones: so many terms.
  static constexpr float kCorner = 32 * 2 * 2;
  TestRuntime test;
  Symbol net;
  Bindings bindings;
};

float first_of(const NDArray& array) {
  return array.to_vector<float>().value().front();
}

TEST_CASE("who reads a weight behind the operator that overwrites it reads the new one") {
  for (const bool train : {true, false}) {
    for (const DType products : {DType::f32, DType::bf16}) {
      CAPTURE(train, products);
      ReadAroundUpdate read({2, 32, 8, 8});
      ExecutorOptions options;
      options.train = train;
      options.predict = !train;
      options.products = products;
      const auto executor =
          Executor::bind(read.test.runtime, read.net, read.bindings, options).value();
      for (const float content : {1.0F, 2.0F}) {  // of the weight before the pass
        REQUIRE(executor->forward(train).ok());
        const auto product = [&](float weight) {
          return Approx(ReadAroundUpdate::kCorner * weight).epsilon(1e-5);
        };
        CHECK(first_of(executor->outputs()[0]) == product(content));
        CHECK(first_of(executor->outputs()[2]) == product(content + 1));
      }
    }
  }
}

TEST_CASE("an output is written by the forward pass where an operator behind it overwrites",
          "[onednn]") {
  ReadAroundUpdate read({2, 32, 56, 56});  // large enough for blocked layouts
  read.bindings.grad_req["x"] = GradReq::write;
  ExecutorOptions options;
  options.predict = false;
  const auto executor = Executor::bind(read.test.runtime, read.net, read.bindings, options).value();
  const std::vector<std::string>& reorders = executor->report().reorders;
  CHECK(std::ranges::count_if(
            reorders, [](const auto& text) { return text.starts_with("before_output "); }) == 1);
  REQUIRE(executor->forward(true).ok());
  CHECK(first_of(executor->outputs()[0]) == Approx(ReadAroundUpdate::kCorner).epsilon(1e-5));
  CHECK(first_of(executor->outputs()[2]) == Approx(2 * ReadAroundUpdate::kCorner).epsilon(1e-5));
}

TEST_CASE("nothing is computed once more where an operator overwrites what it has read") {
  Composer c(table());
  const Symbol w = c.variable("w");
  Symbol y = c.variable("x");
  for (int i = 0; i < 9; ++i) {
    const Symbol product = c.call("multiply", fmt::format("product{}", i), {y, w});
    y = c.call("activation", fmt::format("tanh{}", i), {product}, {{"act_type", "tanh"}});
  }
  const Symbol update = c.call("add_scaled", "update", {w, c.variable("g"), c.variable("f")});
  const Symbol net = c.finish(Symbol::group(std::vector<Symbol>{y, update})).value();
  const Shape shape{8, 32};
  const auto gradient = [&](Recompute recompute) {
    TestRuntime test;
    const auto filled = [&](double number) {
      return array(test, shape, std::vector<double>(256, number));
    };
    Bindings bindings;
    bindings.arguments["x"] = filled(0.3);
    for (const char* name : {"w", "g"}) bindings.arguments[name] = filled(1);
    bindings.arguments["f"] = array(test, {}, {10});
    bindings.grad_req["x"] = GradReq::write;
    bindings.outputs = {filled(0), bindings.arguments["w"]};
    ExecutorOptions options;
    options.predict = false;
    options.recompute = recompute;
    const auto executor = Executor::bind(test.runtime, net, std::move(bindings), options).value();
    REQUIRE(executor->forward(true).ok());
    REQUIRE(executor->backward(std::vector<NDArray>{filled(1), filled(0)}).ok());
    return values(executor->gradients().at("x"));
  };
  CHECK(gradient(Recompute::sqrt) == gradient(Recompute::none));
}

TEST_CASE("an identity of what is overwritten is taken before") {
  TestRuntime test;
  Composer c(table());
  const Symbol w = c.variable("w"), g = c.variable("g"), f = c.variable("f");
  const Symbol before = c.call("reduce_to_like", "before", {w, g});
  const Symbol update = c.call("add_scaled", "update", {w, g, f});
  const std::vector<Symbol> heads = {c.call("add", "sum", {before, update}), update};
  const Symbol net = c.finish(Symbol::group(heads)).value();
  Bindings bindings;
  for (const auto& [name, value] : {std::pair("w", 2.0F), {"g", 1.0F}, {"f", 10.0F}}) {
    const bool number = std::string_view(name) == "f";
    bindings.arguments[name] =
        NDArray::from<float>(test.runtime, number ? Shape{} : Shape{1}, std::vector{value}).value();
  }
  bindings.outputs = {NDArray::zeros(test.runtime, {1}).value(), bindings.arguments.at("w")};
  ExecutorOptions options;
  options.predict = false;
  for (const bool fused : {false, true}) {
    options.fused = fused;
    const float first = 2;
    REQUIRE(bindings.arguments.at("w").write(std::as_bytes(std::span(&first, 1))).ok());
    const auto executor = Executor::bind(test.runtime, net, bindings, options).value();
    REQUIRE(executor->forward(true).ok());
    CHECK(bindings.outputs[0].scalar<float>().value() == 14.0F);
    CHECK(bindings.arguments.at("w").scalar<float>().value() == 12.0F);
  }
}

}  // namespace
}  // namespace troupe::symbol
