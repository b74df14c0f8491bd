// SPDX-License-Identifier: Apache-2.0
// Gradients: as symbols and in executors, of outputs of every kind; what has none.
#include "symbol/gradient.h"

#include "symbol/infer.h"
#include "tests/support/catch.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Shape;
using ndarray::NDArray;
using tests::TestRuntime;

TEST_CASE("gradients are symbols, with head gradients as inputs") {
  Composer c(table());
  const Symbol x = c.variable("x");
  const Symbol y = c.call("multiply", "y", {c.call("exp", "e", {x}), x});
  const Symbol slope = gradient(table(), y, Names{"x"}).value();
  CHECK(slope.output_count() == 1);
  CHECK(slope.list_arguments() == Names{"y_output_head_gradient", "x"});
  const Symbol loss = gradient(table(), two_layers(), Names{"fc1_weight", "data"}).value();
  CHECK(loss.output_count() == 2);
  CHECK(loss.list_arguments().size() == 6);
}

TEST_CASE("a value may be used more often than one sum takes") {
  Composer c(table());
  const Symbol x = c.variable("x");
  Symbol sum = x;
  for (int i = 0; i < 600; ++i) sum = c.call("add", fmt::format("s{}", i), {sum, x});
  const Graph graph = gradient(table(), sum, Names{"x"}).value().graph();
  std::size_t parts = 0, sums = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable() || node.op->name != "add_n") continue;
    ++sums;
    CHECK(node.inputs.size() <= 256);
    parts += node.inputs.size();
  }
  CHECK(sums >= 3);
  CHECK(parts == 601 + sums - 1);
}

TEST_CASE("gradients that do not exist are errors that name the argument") {
  const Symbol net = two_layers();
  CHECK(mentions(gradient(table(), net, Names{"softmax_label"}).status(), {"softmax_label"}));
  CHECK(mentions(gradient(table(), net, Names{"fc3_weight"}).status(), {"fc3_weight"}));
  Composer c(table());
  const Symbol cut = c.call("stop_gradient", "stop", {c.call("exp", "e", {c.variable("x")})});
  const Symbol sum = c.call("add", "s", {cut, c.variable("y")});
  CHECK(gradient(table(), sum, Names{"y"}).ok());
  CHECK(mentions(gradient(table(), sum, Names{"x"}).status(), {"'x'"}));
  const Graph graph = sum.graph();
  const ValueDTypes dtypes = infer_dtypes(graph, {}).value();
  CHECK(without_gradient(table(), graph, Names{"x", "y"}, dtypes).value() == Names{"x"});
  CHECK(mentions(without_gradient(table(), graph, Names{"z"}, dtypes).status(), {"'z'"}));
}

/// A file of one layer, dropout or batch_norm behind data, with the given output as head.
std::string hidden_head(const std::string& op, const std::string& head) {
  return R"({"nodes": [{"op": "null", "name": "data", "inputs": []},
    {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "3"}, "inputs": [[0, 0, 0]]},
    {"op": ")" +
         op + R"(", "name": "last", "inputs": [[1, 0, 0]]}], "heads": [)" + head + "]}";
}

TEST_CASE("hidden outputs are no outputs of a file, and have no gradient") {
  for (const std::string op : {"Dropout", "BatchNorm"}) {
    INFO(op);
    CHECK(Symbol::from_json(table(), hidden_head(op, "[2, 0, 0]")).ok());
    CHECK(mentions(Symbol::from_json(table(), hidden_head(op, "[2, 1, 0]")).status(),
                   {"heads", "output 1 of node 2 'last' is hidden"}));
  }
  // A file may use one within the network: the mean of the batch in an exp.
  const std::string text = hidden_head("BatchNorm", "[2, 1, 0]");
  std::string used = text.substr(0, text.rfind("],"));
  used += R"(, {"op": "exp", "name": "e", "inputs": [[2, 1, 0]]}], "heads": [[3, 0, 0]]})";
  const base::Result<Symbol> net = Symbol::from_json(table(), used);
  REQUIRE(net.ok());
  CHECK(mentions(gradient(table(), *net, Names{"fc_weight"}).status(),
                 {"[batch_norm last]", "last_mean is a hidden output"}));
}

TEST_CASE("an integer on the way to an argument is an error, unless the gradient is cut") {
  Composer c(table());
  const Symbol x = c.variable("x");
  const auto through = [&](const Symbol& from) {
    const Symbol whole = c.call("cast", "whole", {from}, {{"dtype", "i32"}});
    const Symbol back = c.call("cast", "back", {whole}, {{"dtype", "f32"}});
    return c.finish(c.call("multiply", "product", {back, x})).value();
  };
  CHECK(mentions(gradient(table(), through(x), Names{"x"}).status(),
                 {"[cast whole]", "whole_output is i32", "stop_gradient"}));
  CHECK(gradient(table(), through(c.call("stop_gradient", "cut", {x})), Names{"x"}).ok());
  const Symbol head = c.call("cast", "head", {x}, {{"dtype", "i64"}});
  CHECK(mentions(gradient(table(), head, Names{"x"}).status(), {"head_output is i64"}));
}

TEST_CASE("a gradient that is the head gradient itself is the one of this step") {
  Composer c(table());
  const Symbol a = c.variable("a"), b = c.variable("b");
  const Symbol sum = c.call("add_n", "s", {a, b}, {{"num_args", "2"}});
  for (bool threaded : {false, true}) {
    for (const MemoryMode memory : {MemoryMode::none, MemoryMode::both}) {
      TestRuntime test(threaded);
      Bindings bindings;
      bindings.arguments = {{"a", array(test, {2}, {1, 2})}, {"b", array(test, {2}, {3, 4})}};
      bindings.grad_req = {{"a", GradReq::write}, {"b", GradReq::add}};
      ExecutorOptions options;
      options.memory = memory;
      const auto executor =
          Executor::bind(test.runtime, c.finish(sum).value(), bindings, options).value();
      double total = 0;
      for (double head : {1.0, 2.0, 3.0}) {
        REQUIRE(executor->forward(true).ok());
        const NDArray slope = array(test, {2}, {head, 10 * head});
        REQUIRE(executor->backward({&slope, 1}).ok());
        total += head;
        CHECK(values(executor->gradients().at("a")) == std::vector<double>{head, 10 * head});
        CHECK(values(executor->gradients().at("b")) == std::vector<double>{total, 10 * total});
      }
      REQUIRE(executor->forward(true).ok());
      CHECK(values(executor->gradients().at("a")) == std::vector<double>{3, 30});
      CHECK(values(executor->gradients().at("b")) == std::vector<double>{6, 60});
    }
  }
}

TEST_CASE("a gradient that the forward pass computes too is written by the backward pass alone") {
  Composer c(table());
  const Symbol x = c.variable("x"), label = c.variable("label");
  const Symbol loss = c.call("softmax_cross_entropy", "loss", {x, label});
  const Symbol slope = c.call("softmax_cross_entropy_backward", "slope",
                              {c.call("ones_like", "one", {loss}), x, label});
  const Symbol outputs[] = {loss, c.call("stop_gradient", "cut", {slope})};
  for (const GradReq request : {GradReq::write, GradReq::add}) {
    TestRuntime test;
    Bindings bindings;
    bindings.arguments = {{"x", array(test, {2, 2}, {1, 2, 3, 5})},
                          {"label", array(test, {2}, {0, 1})}};
    bindings.grad_req = {{"x", request}};
    const auto executor = Executor::bind(test.runtime, Symbol::group(outputs), bindings).value();
    const NDArray unused = NDArray::zeros(test.runtime, {2, 2}, base::DType::f64).value();
    REQUIRE(executor->forward(true).ok());
    CHECK(values(executor->gradients().at("x")) == std::vector<double>(4, 0.0));
    const std::vector<double> wanted = values(executor->outputs()[1]);
    CHECK(wanted[0] < -0.5);
    REQUIRE(executor->backward({&unused, 1}).ok());
    CHECK(values(executor->gradients().at("x")) == wanted);
    CHECK(values(executor->outputs()[1]) == wanted);
  }
}

TEST_CASE("a head gradient has its output's shape and dtype") {
  TestRuntime test;
  const Symbol net = Symbol::create(table(), "square", "y", {{Symbol::variable("x")}, {}}).value();
  Bindings bindings;
  bindings.arguments["x"] = array(test, {2, 3}, {1, 2, 3, 4, 5, 6});
  bindings.grad_req["x"] = GradReq::write;
  const auto executor = Executor::bind(test.runtime, net, bindings).value();
  REQUIRE(executor->forward(true).ok());
  const NDArray turned = array(test, {3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(mentions(executor->backward({&turned, 1}), {"head gradient 0", "(3, 2)", "(2, 3)"}));
  const NDArray narrow = NDArray::zeros(test.runtime, {2, 3}).value();
  CHECK(mentions(executor->backward({&narrow, 1}), {"head gradient 0", "f32", "f64"}));
  const NDArray head = turned.reshape({2, 3});
  REQUIRE(executor->backward({&head, 1}).ok());
  CHECK(values(executor->gradients().at("x")) == std::vector<double>{2, 8, 18, 32, 50, 72});
}

/// Gradients of fc1_weight and fc2_bias of two_layers(); `scale` is written before backward.
std::vector<std::vector<double>> scaled_gradients(float bound_with, float scale, bool scaled,
                                                  base::DType dtype) {
  TestRuntime test;
  Bindings bindings =
      allocate_bindings(test.runtime, two_layers(), {{"data", {5, 6}}}, dtype).value();
  for (const auto& [name, argument] : bindings.arguments) fill(argument, name, -0.7, 1.3);
  fill_labels(bindings.arguments.at("softmax_label"), 3);
  for (const char* name : {"fc1_weight", "fc2_bias"}) bindings.grad_req[name] = GradReq::write;
  ExecutorOptions options;
  if (scaled) {
    const std::vector<float> values = {bound_with, 3.0F};
    options.loss_scale = NDArray::from<float>(test.runtime, {2}, values).value();
  }
  const auto executor = Executor::bind(test.runtime, two_layers(), bindings, options).value();
  REQUIRE(executor->forward(true).ok());
  if (scaled) {
    const std::vector<float> values = {scale, 3.0F};
    REQUIRE(options.loss_scale.write(std::as_bytes(std::span(values))).ok());
  }
  REQUIRE(executor->backward().ok());
  std::vector<std::vector<double>> found;
  for (const char* name : {"fc1_weight", "fc2_bias"}) {
    REQUIRE(ops::with_real(dtype, [&](auto zero) {
              using T = decltype(zero);
              std::vector<double>& gradient = found.emplace_back();
              for (const T number : executor->gradients().at(name).to_vector<T>().value()) {
                gradient.push_back(static_cast<ops::Wide<T>>(number));
              }
              return base::Status();
            }).ok());
  }
  return found;
}

TEST_CASE("losses' gradients are multiplied with the loss scale of the moment") {
  using base::DType;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    CAPTURE(base::dtype_name(dtype));
    const auto plain = scaled_gradients(0.0F, 0.0F, false, dtype);
    for (const float scale : {1.0F, 1024.0F, 65'536.0F}) {
      if (dtype == DType::f16 && scale > 1024.0F) continue;  // its largest number is 65,504
      const auto scaled = scaled_gradients(2.0F, scale, true, dtype);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        REQUIRE(scaled[i].size() == plain[i].size());
        // What f16 rounds near zero, it rounds elsewhere where it is 1,024 times as large.
        const double rounding = dtype == DType::f16 ? 1e-3 : 0;
        for (std::size_t k = 0; k < plain[i].size(); ++k) {
          CHECK(scaled[i][k] == Approx(scale * plain[i][k]).epsilon(rounding).margin(rounding));
        }
      }
    }
  }
}

TEST_CASE("under a loss scale a loss that others read is refused, unless the way is cut") {
  Composer c(table());
  const Symbol x = c.variable("x"), label = c.variable("label");
  for (const char* op : {"softmax_cross_entropy", "softmax_output"}) {
    const Symbol loss = c.call(op, std::string(op) + "1", {x, label});
    const auto scaled = [&](const Symbol& head, std::string_view name) {
      const Symbol heads[] = {loss, head};
      const Graph graph = c.finish(Symbol::group(heads)).value().graph();
      const std::vector<std::string> wrt = {"x"};
      const auto dtypes = infer_dtypes(graph, {{"x", base::DType::f32}}).value();
      return differentiate(table(), graph, wrt, dtypes, name);
    };
    const Symbol squared = c.call("square", std::string(op) + "2", {loss});
    CHECK(mentions(scaled(squared, "scale").status(), {op, "must be an output alone"}));
    CHECK(scaled(squared, "").ok());
    const Symbol cut = c.call("stop_gradient", std::string(op) + "3", {loss});
    const auto result = scaled(c.call("square", std::string(op) + "4", {cut}), "scale");
    REQUIRE(result.ok());
    const auto& nodes = result->graph.nodes;
    CHECK(std::ranges::count(nodes, "scale", &GraphNode::name) == 1);
  }
}

TEST_CASE("the gradient of a network as a symbol is bound and run like any other") {
  TestRuntime test;
  Composer c(table());
  Symbol net = c.call("convolution", "conv", {c.variable("data")},
                      {{"kernel", "(3, 3)"}, {"num_filter", "4"}});
  net = c.call("batch_norm", "bn", {net}, {{"fix_gamma", "False"}});
  net = c.call("pooling", "pool", {net}, {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}});
  net = c.call("dropout", "drop", {net});
  net = c.finish(c.call("fully_connected", "fc", {net}, {{"num_hidden", "3"}})).value();
  const std::vector<std::string> wrt = {"conv_weight", "bn_gamma", "fc_weight"};
  const Symbol slope = gradient(table(), net, wrt).value();
  const auto bindings_of = [&](const Symbol& symbol) {
    Bindings made =
        allocate_bindings(test.runtime, symbol, {{"data", {2, 2, 8, 8}}, {"fc_weight", {3, 36}}},
                          base::DType::f64)
            .value();
    for (const auto& [name, argument] : made.arguments) fill(argument, name, 0.3, 1.3);
    for (const auto& [name, state] : made.auxiliary) fill(state, name, 0.5, 1.5);
    return made;
  };
  Bindings plain = bindings_of(net);
  for (const std::string& name : wrt) plain.grad_req[name] = GradReq::write;
  const auto whole = Executor::bind(test.runtime, net, plain).value();
  const Bindings given = bindings_of(slope);
  const auto bound = Executor::bind(test.runtime, slope, given);
  INFO(bound.status().to_string());
  REQUIRE(bound.ok());
  const NDArray head = (*bound)->arguments().at("fc_output_head_gradient");
  REQUIRE(whole->forward(true).ok());
  REQUIRE(whole->backward({&head, 1}).ok());
  REQUIRE((*bound)->forward(true).ok());
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    INFO(wrt[i]);
    CHECK(values((*bound)->outputs()[i]) == values(whole->gradients().at(wrt[i])));
  }
  // In prediction it is the gradient of the prediction.
  REQUIRE((*bound)->forward(false).ok());
  const auto predicted = [&] {
    REQUIRE(whole->forward(false).ok());
    const std::vector<double> y = values(whole->outputs()[0]), h = values(head);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * h[i];
    return sum;
  };
  for (std::size_t k = 0; k < wrt.size(); ++k) {
    INFO(wrt[k]);
    const NDArray& argument = whole->arguments().at(wrt[k]);
    std::vector<double> x = values(argument);
    const std::vector<double> slopes = values((*bound)->outputs()[k]);
    for (const std::size_t i : {std::size_t{0}, x.size() - 1}) {
      const double middle = x[i];
      double ends[2];
      for (int side = 0; side < 2; ++side) {
        x[i] = middle + (side == 0 ? -1e-6 : 1e-6);
        REQUIRE(argument.write(std::as_bytes(std::span<const double>(x))).ok());
        ends[side] = predicted();
      }
      x[i] = middle;
      REQUIRE(argument.write(std::as_bytes(std::span<const double>(x))).ok());
      CHECK(slopes[i] == Approx((ends[1] - ends[0]) / 2e-6).epsilon(1e-5).margin(1e-6));
    }
  }
}

}  // namespace
}  // namespace troupe::symbol
