// SPDX-License-Identifier: Apache-2.0
// Positions of a graph's values are 0, 1, ... in the order of nodes and outputs; nodes say which of
// their inputs they read.
#include "symbol/value_numbers.h"

#include <random>

#include "symbol/graph.h"
#include "symbol/networks/networks.h"
#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::symbol {
namespace {

const ops::OpTable& table() {
  return tests::test_operators();
}

/// Counts through all values and compares.
void check_numbers(const Graph& graph, const ValueNumbers& numbers) {
  std::size_t position = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    CHECK(numbers.begin(i) == position);
    for (int output = 0; output < graph.nodes[i].outputs; ++output) {
      CHECK(numbers[{static_cast<std::int64_t>(i), output}] == position++);
    }
    CHECK(numbers.end(i) == position);
  }
  CHECK(numbers.size() == position);
}

TEST_CASE("a graph without nodes has no values") {
  CHECK(ValueNumbers().size() == 0);
  CHECK(ValueNumbers(Graph()).size() == 0);
}

TEST_CASE("values are numbered in the order of nodes, hidden outputs included") {
  Graph graph;
  Builder builder(table(), graph);
  const Value data = builder.add_variable("data");
  std::vector<Value> inputs = {data};
  for (const char* name : {"gamma", "beta", "mean", "variance"}) {
    inputs.push_back(builder.add_variable(name));
  }
  builder.set_prefix("bn");
  const std::vector<Value> outputs = builder.add("batch_norm", inputs, {});
  builder.set_prefix("last");
  const Value last = builder.add1("exp", {outputs.front()});
  REQUIRE(outputs.size() > 1);

  const ValueNumbers numbers(graph);
  CHECK(numbers[data] == 0);
  CHECK(numbers[outputs.front()] == 5);
  CHECK(numbers[outputs.back()] == 5 + outputs.size() - 1);
  CHECK(numbers[last] == 5 + outputs.size());
  CHECK(numbers.size() == 6 + outputs.size());
  for (const std::string& name : network_names()) {
    const Graph network = make_network(table(), name).value().graph();
    check_numbers(network, ValueNumbers(network));
  }
}

TEST_CASE("numbers that grow with a graph are those of the whole graph") {
  std::mt19937 random(3);
  Graph graph;
  ValueNumbers growing;
  for (int i = 0; i < 100; ++i) {
    GraphNode& node = graph.nodes.emplace_back();
    node.outputs = static_cast<int>(random() % 4);
    growing.add_node(node.outputs);
    check_numbers(graph, growing);
  }
  check_numbers(graph, ValueNumbers(graph));
}

TEST_CASE("a node says which inputs it reads, and of which only the shape matters") {
  Graph graph;
  Builder builder(table(), graph);
  const Value x = builder.add_variable("x");
  const Value y = builder.add_variable("y");
  builder.set_prefix("call");
  const auto call = [&](std::string_view op, std::vector<Value> inputs) -> const GraphNode& {
    return graph.node(builder.add1(op, std::move(inputs)));
  };
  CHECK_FALSE(call("ones_like", {x}).reads(0));
  const GraphNode sum = call("add", {x, y});
  CHECK(sum.reads(0));
  CHECK(sum.reads(1));
  CHECK(sum.input(0) == x);
  CHECK(sum.input(1) == y);
  const GraphNode reduced = call("reduce_to_like", {x, y});
  CHECK(reduced.reads(0));
  CHECK_FALSE(reduced.reads(1));
}

}  // namespace
}  // namespace troupe::symbol
