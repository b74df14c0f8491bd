// SPDX-License-Identifier: Apache-2.0
// Mixed precision: which operators compute in 16 bits, where casts stand, and what comes out.
#include "symbol/precision.h"

#include <cmath>

#include "symbol/gradient.h"
#include "symbol/value_numbers.h"
#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::DType;
using base::Shape;

/// The graph of `net` with products in bf16, its dtypes by name of the value.
struct Narrowed {
  explicit Narrowed(const Symbol& net, const std::map<std::string, DType>& known = {}) {
    const Graph before = net.graph();
    graph = compute_in(table(), before, DType::bf16, infer_dtypes(before, known).value());
    const ValueDTypes inferred = infer_dtypes(graph, known).value();
    const ValueNumbers numbers(graph);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Value value{static_cast<std::int64_t>(i), 0};
      dtypes[graph.nodes[i].name] = inferred[numbers[value]];
      casts += !graph.nodes[i].is_variable() && graph.nodes[i].op->name == "cast";
    }
    for (const Value head : graph.heads) heads.push_back(inferred[numbers[head]]);
  }

  Graph graph;
  std::map<std::string, DType> dtypes;
  std::vector<DType> heads;
  int casts = 0;
};

TEST_CASE("products are computed in 16 bits, and what follows them as far as it may be") {
  const Narrowed lenet(make_network(table(), "lenet").value());
  for (const char* name : {"conv1", "pool1", "conv2", "pool2", "fc1", "fc2"}) {
    INFO(name);
    CHECK(lenet.dtypes.at(name) == DType::bf16);
  }
  CHECK(lenet.dtypes.at("softmax") == DType::f32);
  CHECK(lenet.heads == std::vector{DType::f32});
  CHECK(lenet.dtypes.at("conv1_weight") == DType::f32);
  // Data, four weights and four biases before the products, and what the loss reads behind them.
  CHECK(lenet.casts == 10);
}

TEST_CASE("batch normalisation takes data in 16 bits, and its vectors in f32") {
  Composer c(table());
  const Symbol conv = c.call("convolution", "conv", Inputs{{c.variable("data")}, {}},
                             {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"no_bias", "True"}});
  const Symbol norm = c.call("batch_norm", "bn", Inputs{{conv}, {}});
  const Symbol relu = c.call("activation", "relu", {norm}, {{"act_type", "relu"}});
  const Symbol wide = c.call("batch_norm", "alone", Inputs{{c.variable("other")}, {}});
  const Symbol heads[] = {relu, wide};
  std::map<std::string, DType> known;
  for (const char* name : {"bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"}) {
    known[name] = DType::f32;
  }
  const Narrowed n(c.finish(Symbol::group(heads)).value(), known);
  for (const char* name : {"conv", "bn", "relu"}) CHECK(n.dtypes.at(name) == DType::bf16);
  for (const char* name : {"bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var", "alone"}) {
    INFO(name);
    CHECK(n.dtypes.at(name) == DType::f32);
  }
  CHECK(n.casts == 3);  // data, the weight, the head
}

TEST_CASE("inputs that differ make an operator wide, and no value is cast twice") {
  Composer c(table());
  const Symbol data = c.variable("data");
  const Symbol product = c.call("fully_connected", "fc", Inputs{{data}, {}}, {{"num_hidden", "4"}});
  const Symbol again = c.call("fully_connected", "fd", Inputs{{data}, {}}, {{"num_hidden", "4"}});
  const Symbol sum = c.call("add", "sum", {product, again});
  const Symbol mixed = c.call("add", "mixed", {sum, data});
  const Symbol wide = c.call("exp", "wide", {sum});
  const Symbol relu = c.call("activation", "relu", {sum}, {{"act_type", "relu"}});
  const Symbol end = c.call("concat", "end", {wide, mixed}, {{"num_args", "2"}});
  const Symbol heads[] = {end, relu, product};
  const Narrowed n(c.finish(Symbol::group(heads)).value());
  CHECK(n.dtypes.at("sum") == DType::bf16);
  CHECK(n.dtypes.at("relu") == DType::bf16);
  for (const char* name : {"mixed", "wide", "end"}) CHECK(n.dtypes.at(name) == DType::f32);
  CHECK(n.heads == std::vector(3, DType::f32));
  // data, two weights, two biases; sum for `mixed` and `wide` at once; two heads.
  CHECK(n.casts == 8);
}

TEST_CASE("what is not f32 stays as it is") {
  Composer c(table());
  const Symbol data = c.variable("data");
  const Symbol half = c.call("cast", "half", {data}, {{"dtype", "f16"}});
  const Symbol fc = c.call("fully_connected", "fc", Inputs{{half}, {}},
                           {{"num_hidden", "4"}, {"no_bias", "True"}});
  const Narrowed explicit_half(c.finish(fc).value(), {{"fc_weight", DType::f16}});
  CHECK(explicit_half.dtypes.at("fc") == DType::f16);
  CHECK(explicit_half.casts == 1);
  const Narrowed wide(two_layers(), {{"data", DType::f64}});
  CHECK(wide.casts == 0);
  CHECK(wide.dtypes.at("fc1") == DType::f64);
}

/// A convolution and two fully connected layers, with nothing that jumps between.
Symbol smooth() {
  Composer c(table());
  const ops::Attributes tanh = {{"act_type", "tanh"}};
  Symbol net = c.call("convolution", "conv", Inputs{{c.variable("data")}, {}},
                      {{"kernel", "(3, 3)"}, {"num_filter", "16"}});
  net = c.call("activation", "", {net}, tanh);
  net = c.call("fully_connected", "fc1", {c.call("flatten", "", {net})}, {{"num_hidden", "32"}});
  net = c.call("fully_connected", "fc2", {c.call("activation", "", {net}, tanh)},
               {{"num_hidden", "10"}});
  return c.finish(c.call("softmax_output", "softmax", {net})).value();
}

TEST_CASE("networks with products in 16 bits give nearly what they give in f32") {
  struct Case {
    std::string name;
    Symbol net;
    Shape data;
  };
  const Case cases[] = {
      {"smooth", smooth(), {6, 3, 8, 8}},
      {"parted", parted(), {4, 3, 8, 8}},
      {"lenet", make_network(table(), "lenet").value(), {4, 1, 28, 28}},
      {"tiny-bn", make_network(table(), "tiny-bn").value(), {4, 1, 16, 16}},
  };
  for (const auto& [dtype, limit] : {std::pair{DType::bf16, 0.05}, {DType::f16, 0.005}}) {
    for (const auto& [network, net, data] : cases) {
      INFO(network << " in " << base::dtype_name(dtype));
      Bound wide(net, data), narrow(net, data, {.products = dtype});
      const Results expected = wide.step(), got = narrow.step();
      REQUIRE(expected.size() == got.size());
      bool differs = false;
      for (const auto& [name, bytes] : expected) {
        INFO(name);
        differs = differs || bytes != got.at(name);
        // Behind a relu or a max pooling, gradients jump where values are nearly alike.
        if (network != "smooth" && !name.starts_with("output")) continue;
        CHECK(distance<float>(bytes, got.at(name)) <= limit);
      }
      CHECK(differs);
      REQUIRE(narrow.executor->forward(false).ok());
      REQUIRE(wide.executor->forward(false).ok());
      CHECK(distance<float>(bytes_of(wide.executor->outputs()[0]),
                            bytes_of(narrow.executor->outputs()[0])) <= limit);
    }
  }
}

TEST_CASE("products in 16 bits have the same bits however they run") {
  const Shape data{4, 1, 16, 16};
  const ExecutorOptions options{.products = DType::bf16};
  Bound one("tiny-bn", data, options);
  const Results expected = one.step();
  engine::EngineOptions three;
  three.threads = 3;
  CHECK(Bound("tiny-bn", data, options, true, three).step() == expected);
  CHECK(Bound("tiny-bn", data, options, false).step() == expected);
  ExecutorOptions unplanned = options;
  unplanned.memory = MemoryMode::none;
  unplanned.recompute = Recompute::none;
  CHECK(Bound("tiny-bn", data, unplanned).step() == expected);
  tests::DelayedStream stream;
  ExecutorOptions delayed = options;
  delayed.device = stream.device();
  engine::EngineOptions late;
  late.streams = {&stream};
  CHECK(Bound("tiny-bn", data, delayed, true, late).step() == expected);
}

/// The gradients of `names` with products in bf16, those of weights widened where they can be.
Graph widened(const Symbol& net, const std::vector<std::string>& names) {
  const Graph flat = net.graph();
  const Graph narrow = compute_in(table(), flat, DType::bf16, infer_dtypes(flat, {}).value());
  const Graph whole =
      differentiate(table(), narrow, names, infer_dtypes(narrow, {}).value(), "").value().graph;
  return widen_gradients(whole, infer_dtypes(whole, {}).value());
}

std::string op_of(const Graph& graph, Value value) {
  const GraphNode& node = graph.nodes[node_index(value)];
  return node.is_variable() ? "variable" : node.op->name;
}

TEST_CASE("gradients of weights that can be f32 at once are not rounded in between") {
  const Graph graph = widened(two_layers(), {"data", "fc1_weight", "fc1_bias"});
  const ValueDTypes dtypes = infer_dtypes(graph, {}).value();
  const ValueNumbers numbers(graph);
  REQUIRE(graph.heads.size() == 4);
  for (const Value head : graph.heads) CHECK(dtypes[numbers[head]] == DType::f32);
  CHECK(op_of(graph, graph.heads[1]) == "cast_like");  // of data
  const std::string weights = "fully_connected_backward_weights";
  CHECK(op_of(graph, graph.heads[2]) == weights);
  CHECK(op_of(graph, graph.heads[3]) == weights);
}

TEST_CASE("gradients that something reads in 16 bits stay") {
  Composer c(table());
  const Symbol data = c.variable("data"), weight = c.variable("weight");
  const ops::Attributes hidden = {{"num_hidden", "4"}, {"no_bias", "True"}};
  const Symbol twice =
      c.call("fully_connected", "fd",
             {c.call("fully_connected", "fc", {data, weight}, hidden), weight}, hidden);
  const Graph graph = widened(c.finish(twice).value(), {"weight"});
  // Two gradients of one cast of the weight are added first.
  CHECK(op_of(graph, graph.heads[1]) == "cast_like");
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable() || node.op->name != "fully_connected_backward_weights") continue;
    CHECK(!node.params.boolean("wide_gradients"));
  }
}

TEST_CASE("products in other types are refused") {
  tests::TestRuntime test;
  const Symbol net = two_layers();
  const auto made = Executor::bind(test.runtime, net, make_bindings(test.runtime, net, {2, 5}),
                                   {.products = DType::i8});
  CHECK(mentions(made.status(), {"products in i8", "f16 and bf16"}));
}

}  // namespace
}  // namespace troupe::symbol
