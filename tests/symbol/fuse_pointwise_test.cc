// SPDX-License-Identifier: Apache-2.0
// Which element-wise nodes become one, and that a network's bits do not depend on it.
#include "symbol/fuse_pointwise.h"

#include <functional>
#include <set>

#include "ops/pointwise_chain.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

/// A graph whose variables have the shapes given, others that of the first.
struct Drawn {
  Graph graph;
  Builder builder{table(), graph};
  std::map<std::string, base::Shape> shapes;
  std::map<std::string, base::DType> dtypes;

  Value variable(const std::string& name, const base::Shape& shape = {4, 3},
                 base::DType dtype = base::DType::f32) {
    shapes.emplace(name, shape);
    dtypes.emplace(name, dtype);
    return builder.add_variable(name);
  }
  Value call(const char* op, std::vector<Value> inputs, const ops::Attributes& attributes = {}) {
    return builder.add1(op, std::move(inputs), attributes);
  }
  Graph fused(std::vector<Value> heads) {
    graph.heads = std::move(heads);
    return fuse_pointwise(table(), graph, infer_shapes(graph, shapes).value(),
                          infer_dtypes(graph, dtypes).value());
  }
};

/// "exp 0; ..." of each fused node and the operators of the others, in their order.
std::vector<std::string> nodes_of(const Graph& graph) {
  std::vector<std::string> list;
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable()) continue;
    const bool fused = node.op->name == "fused_pointwise";
    list.push_back(fused ? node.params.text("steps") : node.op->name);
  }
  return list;
}
using List = std::vector<std::string>;

TEST_CASE("neighbours become one node, with the last one's name and each input once") {
  Drawn d;
  const Value a = d.variable("a"), b = d.variable("b");
  const Value e = d.call("exp", {a});
  const Value p = d.call("multiply_elemwise", {e, b});
  const Value q = d.call("add_elemwise", {p, e});  // e is read twice, within the group
  const Value last = d.call("subtract", {q, b});
  const std::string name = d.graph.node(last).name;
  const Graph graph = d.fused({last});
  CHECK(nodes_of(graph) == List{"exp 0; multiply_elemwise 2 1; add_elemwise 3 2; subtract 4 1"});
  const GraphNode& node = graph.node(graph.heads[0]);
  CHECK(node.name == name);
  REQUIRE(node.inputs.size() == 2);
  CHECK(graph.node(node.inputs[0]).name == "a");
  CHECK(graph.node(node.inputs[1]).name == "b");
}

TEST_CASE("what other nodes or heads read stays a value of its own") {
  Drawn d;
  const Value a = d.variable("a");
  SECTION("a head") {
    const Value e = d.call("exp", {a});
    CHECK(nodes_of(d.fused({d.call("square", {e}), e})) == List{"exp", "square"});
  }
  SECTION("two groups' reader") {
    const Value e = d.call("exp", {a});
    const Value left = d.call("softmax", {d.call("square", {d.call("negate", {e})})});
    const Value right = d.call("softmax", {d.call("log", {d.call("sqrt", {e})})});
    CHECK(nodes_of(d.fused({left, right})) ==
          List{"exp", "negate 0; square 1", "softmax", "sqrt 0; log 1", "softmax"});
  }
  SECTION("a group does not reach around another node") {
    const Value e = d.call("exp", {a});
    const Value s = d.call("softmax", {e});
    CHECK(nodes_of(d.fused({d.call("multiply", {e, s})})) == List{"exp", "softmax", "multiply"});
  }
  SECTION("one alone stays what it is") {
    CHECK(nodes_of(d.fused({d.call("softmax", {d.call("exp", {a})})})) == List{"exp", "softmax"});
  }
}

TEST_CASE("numbers of 0-d are operands, and what is made of them alone stays outside") {
  Drawn d;
  const Value a = d.variable("a"), rate = d.variable("rate", {}), count = d.variable("count", {});
  const Value share = d.call("divide", {rate, count});
  const Value moved = d.call("multiply", {d.call("square", {a}), share});
  const Graph graph = d.fused({d.call("subtract", {d.call("divide", {a, count}), moved})});
  CHECK(nodes_of(graph) == List{"divide", "square 0; multiply 3 2; divide 0 1; subtract 5 4"});
  const GraphNode& node = graph.node(graph.heads[0]);
  REQUIRE(node.inputs.size() == 3);
  CHECK(graph.node(node.inputs[1]).name == "count");
  CHECK(node.params.shape("numbers") == base::Shape{1, 2});
}

TEST_CASE("a chain has no more numbers than its parameter can name") {
  Drawn d;
  Value sum = d.variable("a");
  for (int k = 0; k < 15; ++k) {
    const Value number = d.variable("n" + std::to_string(k), {});
    sum = d.call("multiply", {d.call("add", {sum, number}), sum});
  }
  const Graph graph = d.fused({sum});
  std::size_t chains = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.is_variable() || node.op->name != "fused_pointwise") continue;
    ++chains;
    CHECK(ops::chain_of(node.params).numbers.size() <= ops::kChainNumbersMost);
  }
  CHECK(chains == 2);
}

TEST_CASE("shapes, dtypes and passes are not mixed") {
  Drawn d;
  SECTION("a broadcast operand") {
    const Value a = d.variable("a"), row = d.variable("row", {3});
    const Value sum = d.call("add", {d.call("exp", {a}), row});
    CHECK(nodes_of(d.fused({d.call("square", {sum})})) == List{"exp", "add", "square"});
  }
  SECTION("a smaller tensor that is broadcast later") {
    const Value a = d.variable("a"), row = d.variable("row", {3});
    const Value small = d.call("square", {d.call("exp", {row})});
    const Value sum = d.call("multiply", {a, small});
    CHECK(nodes_of(d.fused({sum})) == List{"exp 0; square 1", "multiply"});
  }
  SECTION("a cast") {
    const Value a = d.variable("a");
    const Value wide = d.call("cast", {d.call("exp", {a})}, {{"dtype", "f64"}});
    CHECK(nodes_of(d.fused({d.call("square", {wide})})) == List{"exp", "cast", "square"});
  }
  SECTION("forward and backward") {
    const Value a = d.variable("a");
    const Value e = d.call("exp", {a});
    d.builder.set_backward(true);
    CHECK(nodes_of(d.fused({d.call("square", {d.call("log", {e})})})) ==
          List{"exp", "log 0; square 1"});
  }
  SECTION("slopes that are a tensor") {
    const Value a = d.variable("a"), gamma = d.variable("gamma", {3});
    const Value prelu = d.call("leaky_relu", {d.call("exp", {a}), gamma}, {{"act_type", "prelu"}});
    CHECK(nodes_of(d.fused({d.call("square", {prelu})})) == List{"exp", "leaky_relu", "square"});
  }
}

TEST_CASE("an identity of equal shapes does not stand between two nodes") {
  Drawn d;
  const Value a = d.variable("a");
  const Value like = d.call("reduce_to_like", {d.call("exp", {a}), a});
  CHECK(nodes_of(d.fused({d.call("square", {like})})) == List{"exp 0; square 1"});
}

TEST_CASE("a graph that overwrites a variable stays as it is") {
  tests::TestRuntime test(true);
  Composer c(table());
  const Symbol w = c.variable("w");
  const Symbol updated = c.call(
      "sgd_update", "update",
      {w, c.variable("gradient"), c.variable("velocity"), c.variable("rate"), c.variable("count")});
  const Symbol difference =
      c.call("subtract", "", {c.call("square", "", {w}), c.call("square", "", {updated[0]})});
  const std::vector<Symbol> heads = {difference, updated[0], updated[1]};
  const Symbol net = c.finish(Symbol::group(heads)).value();
  Bindings bindings;
  bindings.arguments = {{"w", array(test, {3}, {1, 2, 3})},
                        {"gradient", array(test, {3}, {1, 1, 1})},
                        {"velocity", array(test, {3}, {0, 0, 0})},
                        {"rate", array(test, {}, {0.5})},
                        {"count", array(test, {}, {1})}};
  bindings.outputs = {{}, bindings.arguments.at("w"), bindings.arguments.at("velocity")};
  ExecutorOptions options;
  options.train = false;
  const auto executor = Executor::bind(test.runtime, net, bindings, options);
  INFO(executor.status().to_string());
  REQUIRE(executor.ok());
  REQUIRE((*executor)->forward(false).ok());
  CHECK(values((*executor)->outputs()[0]) == std::vector<double>{0.75, 1.75, 2.75});
}

TEST_CASE("fusion takes no more memory than there would be without it") {
  // A sum of many parts, each of which is made just before it is added.
  Composer c(table());
  const Symbol data = c.variable("data");
  Symbol sum = c.call("pooling", "", {data}, {{"kernel", "(1, 1)"}, {"pool_type", "max"}});
  for (int i = 0; i < 12; ++i) {
    const Symbol other = c.call("multiply_scalar", "", {data}, {{"scalar", std::to_string(i)}});
    const Symbol part = c.call("softmax", "", {other});
    sum = c.call("add_elemwise", "", {sum, c.call("square", "", {c.call("exp", "", {part})})});
  }
  const Symbol net = c.finish(sum).value();
  std::map<bool, std::size_t> bytes;
  for (const bool fused : {false, true}) {
    tests::TestRuntime test(true);
    ExecutorOptions options;
    options.fused = fused;
    options.train = false;
    options.sub_batch = 1 << 20;
    Bindings bindings;
    bindings.arguments = {{"data", array(test, {8, 2, 128, 128}, std::vector<double>(8 << 15, 1))}};
    const auto executor = Executor::bind(test.runtime, net, bindings, options);
    INFO(executor.status().to_string());
    REQUIRE(executor.ok());
    const ExecutorReport& report = (*executor)->report();
    std::size_t chains = 0;
    for (const NodeReport& node : report.nodes) chains += node.op == "fused_pointwise";
    CHECK(chains == (fused ? 12 : 0));
    bytes[fused] = report.arena_bytes;
  }
  CHECK(bytes[true] <= bytes[false] + (std::size_t{1} << 18));  // blocks
}

TEST_CASE("a value whose shape alone is read later does not count as living on") {
  // u's inputs would live until `sum`, while `late` is made.
  Drawn d;
  const Value data = d.variable("data", {8, 8});
  const Value v1 = d.call("softmax", {data});
  const Value v2 = d.call("softmax", {d.call("square", {data})});
  const Value u = d.call("add_elemwise", {v1, v2});
  const Value late = d.call("softmax", {d.call("negate", {data})});
  const Value sum = d.call("add_elemwise", {u, late});
  CHECK(nodes_of(d.fused(
            {d.call("softmax", {sum}), d.call("zeros_like", {v1}), d.call("zeros_like", {v2})})) ==
        List{"softmax", "square", "softmax", "add_elemwise", "negate", "softmax", "add_elemwise",
             "softmax", "zeros_like", "zeros_like"});
}

TEST_CASE("groups are no larger than kernels take") {
  Drawn d;
  Value value = d.variable("a0");
  SECTION("steps") {
    for (std::size_t i = 0; i < ops::kChainStepsMost + 3; ++i) value = d.call("square", {value});
    const Graph graph = d.fused({value});
    REQUIRE(graph.nodes.size() == 3);
    CHECK(ops::chain_of(graph.nodes[1].params).steps.size() == 3);
    CHECK(ops::chain_of(graph.nodes[2].params).steps.size() == ops::kChainStepsMost);
  }
  SECTION("inputs") {
    for (std::size_t i = 1; i < ops::kChainInputsMost + 4; ++i) {
      value = d.call("add_elemwise", {value, d.variable("a" + std::to_string(i))});
    }
    const Graph graph = d.fused({value});
    std::size_t fused = 0;
    for (const GraphNode& node : graph.nodes) {
      if (node.is_variable()) continue;
      ++fused;
      CHECK(node.inputs.size() <= ops::kChainInputsMost);
    }
    CHECK(fused == 2);
  }
}

/// A network of formulas: gelu by tanh, a gate, swish from its parts, a residual, and a loss.
Symbol formulas() {
  Composer c(table());
  const auto op = [&c](const char* name, const std::vector<Symbol>& inputs,
                       const ops::Attributes& attributes = {}) {
    return c.call(name, "", {inputs.begin(), inputs.end()}, attributes);
  };
  const auto number = [&](const char* name, const Symbol& x, const char* scalar) {
    return op(name, {x}, {{"scalar", scalar}});
  };
  Symbol x = c.call("fully_connected", "fc1", {c.variable("data")}, {{"num_hidden", "24"}});
  const Symbol cube = op("multiply", {op("square", {x}), x});
  const Symbol inner = number(
      "multiply_scalar", op("add", {x, number("multiply_scalar", cube, "0.044715")}), "0.7978845");
  const Symbol tanh = op("activation", {inner}, {{"act_type", "tanh"}});
  const Symbol gelu =
      number("multiply_scalar", op("multiply", {x, number("add_scalar", tanh, "1")}), "0.5");
  const Symbol y = c.call("fully_connected", "fc2", {gelu}, {{"num_hidden", "24"}});
  const Symbol gate = op("activation", {y}, {{"act_type", "sigmoid"}});
  const Symbol other = number("reverse_subtract_scalar", gate, "1");
  x = op("add_elemwise", {op("multiply", {gate, x}), op("multiply", {other, y})});
  const Symbol decay =
      op("exp", {op("negate", {op("clip", {x}, {{"a_min", "-1"}, {"a_max", "2"}})})});
  x = op("divide", {x, number("add_scalar", decay, "1")});
  x = c.call("fully_connected", "fc3",
             {op("sqrt", {number("add_scalar", op("square", {x}), "1e-3")})},
             {{"num_hidden", "10"}});
  return c.finish(c.call("softmax_output", "softmax", {x})).value();
}

TEST_CASE("no bit of training or prediction depends on fusion, on any kernels and engine") {
  for (const base::DType dtype : {base::DType::f32, base::DType::f64}) {
    for (const bool reference : {false, true}) {
      ExecutorOptions options;
      options.reference_only = reference;
      Bound fused(formulas(), {700, 16}, options, true, {}, dtype);
      options.fused = false;
      Bound plain(formulas(), {700, 16}, options, false, {}, dtype);
      const auto count = [](const Bound& bound, const std::string& op) {
        std::size_t nodes = 0;
        for (const NodeReport& node : bound.executor->report().nodes) nodes += node.op == op;
        return nodes;
      };
      CHECK(count(fused, "fused_pointwise") >= 4);
      CHECK(count(plain, "fused_pointwise") == 0);
      CHECK(fused.executor->report().nodes.size() + 15 < plain.executor->report().nodes.size());
      const ExecutorReport &a_report = fused.executor->report(),
                           &b_report = plain.executor->report();
      CHECK(a_report.arena_bytes <= b_report.arena_bytes + a_report.scratch_bytes);
      const Results a = fused.step(), b = plain.step();
      CHECK(a == b);
      for (Bound* each : {&fused, &plain}) REQUIRE(each->executor->forward(false).ok());
      CHECK(results_of(*fused.executor) == results_of(*plain.executor));
    }
  }
}

TEST_CASE("functions of convolutions keep their blocked layout, as MobileNet v3's h-swish") {
  Composer c(table());
  const auto conv = [&](const std::string& name, const Symbol& from) {
    return c.call("convolution", name, Inputs{{from}, {}},
                  {{"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"num_filter", "20"}});
  };
  const Symbol x = conv("conv1", c.variable("data"));
  const Symbol shifted = c.call("add_scalar", "", {x}, {{"scalar", "3"}});
  const Symbol gate = c.call("clip", "", {shifted}, {{"a_min", "0"}, {"a_max", "6"}});
  const Symbol product = c.call("multiply", "", {x, gate});
  const Symbol swish = c.call("multiply_scalar", "", {product}, {{"scalar", "0.16666667"}});
  Symbol net = c.call("flatten", "flat", {conv("conv2", swish)});
  net = c.call("fully_connected", "fc", Inputs{{net}, {}}, {{"num_hidden", "10"}});
  net = c.finish(c.call("softmax_output", "softmax", {net})).value();
  ExecutorOptions options;
  options.winograd = false;
  Bound fused(net, {2, 16, 9, 9}, options);
  options.fused = false;
  Bound plain(net, {2, 16, 9, 9}, options);
  bool padded = false;  // the convolution's layout, on this processor
  for (const NodeReport& node : plain.executor->report().nodes) {
    padded |= node.op == "convolution" && node.layout.kind == base::Layout::Kind::blocked &&
              node.layout.padded[1] > 20;
  }
  if (padded) {
    CHECK(fused.executor->report().reorders.size() < plain.executor->report().reorders.size());
  }
  const Results a = fused.step(), b = plain.step();
  for (const auto& [name, bytes] : a) {
    INFO(name);
    CHECK(distance<float>(b.at(name), bytes) <= 1e-5);
  }
}

TEST_CASE("recomputed and budgeted steps of fused networks keep their bits") {
  ExecutorOptions options;
  options.recompute = Recompute::none;
  const Results kept = Bound(formulas(), {64, 16}, options).step();
  options.recompute = Recompute::sqrt;
  CHECK(Bound(formulas(), {64, 16}, options).step() == kept);
}

}  // namespace
}  // namespace troupe::symbol
