// SPDX-License-Identifier: Apache-2.0
// Fused graphs compute what unfused ones do, with fewer nodes; what others read stays as it is.
#include "symbol/fuse.h"

#include <set>

#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

std::multiset<std::string> operators(const Graph& graph) {
  std::multiset<std::string> names;
  for (const GraphNode& node : graph.nodes) {
    if (!node.is_variable()) names.insert(node.op->name);
  }
  return names;
}

const GraphNode& find(const Graph& graph, const std::string& name) {
  for (const GraphNode& node : graph.nodes) {
    if (node.name == name) return node;
  }
  FAIL("no node " << name);
  return graph.nodes.front();
}

const ops::Attributes kRelu = {{"act_type", "relu"}};

/// Two normalised branches and their sum.
struct Branches {
  Composer c{table()};
  Symbol data = c.variable("data");
  Symbol left = c.call("batch_norm", "left", {data});
  Symbol right = c.call("batch_norm", "right", {data});
  Symbol sum = c.call("add_elemwise", "sum", {left, right});

  Graph fused(const Symbol& head) { return fuse_epilogues(c.finish(head).value().graph(), false); }
};

TEST_CASE("a sum and a relu move into the later of two nodes before them") {
  Branches b;
  const Symbol relu = b.c.call("activation", "relu", {b.sum}, kRelu);
  const Graph graph = b.fused(b.c.call("exp", "behind", {relu}));
  CHECK(operators(graph) == std::multiset<std::string>{"batch_norm", "batch_norm", "exp"});
  const GraphNode& right = find(graph, "right");
  CHECK(right.params.text("act_type") == "relu");
  CHECK(right.params.boolean("with_sum"));
  REQUIRE(right.inputs.size() == 6);
  CHECK(graph.node(right.inputs[5]).name == "left");
  CHECK(find(graph, "left").params.text("act_type") == "none");
}

TEST_CASE("what another node or a head reads stays") {
  SECTION("a sum that is a head") {
    Branches b;
    CHECK(operators(b.fused(b.sum)).count("add_elemwise") == 1);
  }
  SECTION("a value that two nodes read") {
    Branches b;
    const Symbol relu = b.c.call("activation", "relu", {b.left}, kRelu);
    const Graph graph = b.fused(b.c.call("add_elemwise", "both", {relu, b.left}));
    CHECK(operators(graph).count("activation") == 1);
  }
  SECTION("a value that is added to itself") {
    Branches b;
    const Symbol twice = b.c.call("add_elemwise", "twice", {b.left, b.left});
    CHECK(operators(b.fused(b.c.call("exp", "behind", {twice}))).count("add_elemwise") == 1);
  }
  SECTION("another function") {
    Branches b;
    const Symbol tanh = b.c.call("activation", "tanh", {b.left}, {{"act_type", "tanh"}});
    CHECK(operators(b.fused(b.c.call("exp", "behind", {tanh}))).count("activation") == 1);
  }
}

TEST_CASE("a node whose hidden output is read stays where it is, however often it is read") {
  for (const bool twice : {false, true}) {
    Graph graph;
    Builder builder(table(), graph);
    std::vector<Value> inputs;
    for (const char* name : {"data", "gamma", "beta", "mean", "var"}) {
      inputs.push_back(builder.add_variable(name));
    }
    const std::vector<Value> norm = builder.add("batch_norm", inputs, {});
    const Value square = twice ? builder.add1("multiply_elemwise", {norm[1], norm[1]}, {})
                               : builder.add1("square", {norm[1]}, {});
    const Value relu = builder.add1("activation", {norm[0]}, kRelu);
    graph.heads = {square, builder.add1("exp", {relu}, {})};
    CHECK(operators(fuse_epilogues(graph, false)) == operators(graph));
  }
}

TEST_CASE("nodes that move one state keep their order") {
  Composer c(table());
  const Symbol data = c.variable("data"), mean = c.variable("mean"), var = c.variable("var");
  const Symbol first =
      c.call("batch_norm", "first", {data, c.variable("gamma"), c.variable("beta"), mean, var});
  const Symbol second =
      c.call("batch_norm", "second", {data, c.variable("gamma2"), c.variable("beta2"), mean, var});
  const Symbol relu = c.call("activation", "relu", {second}, kRelu);
  const Symbol sum = c.call("add_elemwise", "sum", {first, relu});
  const Graph graph = c.finish(c.call("exp", "behind", {sum})).value().graph();
  CHECK(operators(fuse_epilogues(graph, false)) == operators(graph));
}

TEST_CASE("a sum of three is no epilogue, a relu behind a sum of a variable is") {
  Branches b;
  const Symbol three = b.c.call("add_n", "three", {b.left, b.right, b.data});
  CHECK(operators(b.fused(b.c.call("exp", "behind", {three}))).count("add_n") == 1);
  const Symbol two = b.c.call("add_n", "two", {b.data, b.left});
  const Graph graph = b.fused(b.c.call("exp", "behind2", {two}));
  CHECK(operators(graph).count("add_n") == 0);
  CHECK(graph.node(find(graph, "left").inputs[5]).name == "data");
}

TEST_CASE("a relu's gradient takes in the sum that it alone reads") {
  const auto fused = [](const char* function, bool read_twice) {
    Graph graph;
    Builder builder(table(), graph);
    std::vector<Value> parts;
    for (const char* name : {"a", "b", "c"}) parts.push_back(builder.add_variable(name));
    const Value output = builder.add_variable("y");
    const Value sum = builder.add1("add_n", parts, {{"num_args", "3"}});
    graph.heads = {builder.add1("activation_backward", {sum, output}, {{"act_type", function}})};
    if (read_twice) graph.heads.push_back(builder.add1("exp", {sum}, {}));
    return fuse_gradient_sums(graph);
  };
  const Graph graph = fused("relu", false);
  REQUIRE(operators(graph) == std::multiset<std::string>{"activation_backward"});
  const GraphNode& gradient = graph.node(graph.heads[0]);
  CHECK(gradient.params.integer("num_gradients") == 3);
  REQUIRE(gradient.inputs.size() == 4);
  const char* const names[] = {"a", "b", "c", "y"};
  for (int i = 0; i < 4; ++i) CHECK(graph.node(gradient.input(i)).name == names[i]);
  Graph many;
  Builder builder(table(), many);
  const std::vector<Value> nine(9, builder.add_variable("a"));
  const Value sum = builder.add1("add_n", nine, {{"num_args", "9"}});
  many.heads = {builder.add1("activation_backward", {sum, builder.add_variable("y")}, kRelu)};
  CHECK(operators(fuse_gradient_sums(many)) == operators(many));  // no kernel adds so many
  CHECK(operators(fused("relu", true)).count("add_n") == 1);
  CHECK(operators(fused("tanh", false)).count("add_n") == 1);
}

/// Results of one step and one prediction, and how many nodes ran.
template <typename T>
void check_fused(const std::string& network, const base::Shape& data, base::DType dtype,
                 double most) {
  INFO(network);
  ExecutorOptions options;
  options.winograd = false;
  Bound fused(network, data, options, true, {}, dtype);
  options.fused = false;
  Bound plain(network, data, options, true, {}, dtype);
  CHECK(fused.executor->report().nodes.size() < plain.executor->report().nodes.size());
  const Results a = fused.step(), b = plain.step();
  REQUIRE(a.size() == b.size());
  for (const auto& [name, bytes] : a) {
    INFO(name);
    CHECK(distance<T>(b.at(name), bytes) <= most);
  }
  for (Bound* each : {&fused, &plain}) REQUIRE(each->executor->forward(false).ok());
  CHECK(distance<T>(bytes_of(plain.executor->outputs()[0]),
                    bytes_of(fused.executor->outputs()[0])) <= most);
}

TEST_CASE("fused networks compute what unfused ones do") {
  check_fused<double>("resnet18", {2, 3, 32, 32}, base::DType::f64, 1e-11);
  check_fused<double>("resnet18-v2", {4, 3, 32, 32}, base::DType::f64, 1e-11);
  check_fused<double>("vgg-a", {1, 3, 32, 32}, base::DType::f64, 1e-11);
  check_fused<double>("googlenet", {1, 3, 32, 32}, base::DType::f64, 1e-11);
  check_fused<double>("inception-bn", {2, 3, 64, 64}, base::DType::f64, 1e-11);
  check_fused<float>("resnet18", {4, 3, 64, 64}, base::DType::f32, 1e-2);
}

}  // namespace
}  // namespace troupe::symbol
