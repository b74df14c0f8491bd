// SPDX-License-Identifier: Apache-2.0
// A rectifier goes behind max pooling and concat where nobody can tell, and the bits stay.
#include "symbol/rectifiers.h"

#include <cmath>
#include <functional>

#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using ops::Attributes;

/// relu and pooling of a variable, with further outputs as asked for.
Symbol pair(const Attributes& pooling, const std::string& activation = "relu") {
  Composer c(table());
  const Symbol x = c.call("activation", "act", {c.variable("data")}, {{"act_type", activation}});
  return c.finish(c.call("square", "end", {c.call("pooling", "pool", {x}, pooling)})).value();
}

/// The operators in order, over data of this shape.
std::string order_of(const Symbol& net, const base::Shape& data = {2, 3, 8, 8}) {
  std::string text;
  const Graph graph = net.graph();
  const ValueShapes shapes = infer_shapes(graph, {{"data", data}}).value();
  for (const GraphNode& node : delay_rectifiers(graph, shapes).nodes) {
    if (!node.is_variable()) text += (text.empty() ? "" : " ") + node.name;
  }
  return text;
}

TEST_CASE("where an operator assigns, rectifiers stay") {
  Composer c(table());
  const Symbol w = c.variable("w");
  const auto relu = [&](const char* name, const Symbol& of) {
    return c.call("activation", name, {of}, {{"act_type", "relu"}});
  };
  const Symbol old = relu("old", w);
  const Symbol update = c.call("add_scaled", "update", {w, c.variable("g"), c.variable("f")});
  const Symbol both = c.call("concat", "both", Inputs{{old, relu("new", update)}, {}},
                             {{"num_args", "2"}, {"dim", "0"}});
  const Symbol net = c.finish(Symbol::group(std::vector<Symbol>{both, update})).value();
  const Graph graph = net.graph();
  const ValueShapes shapes = infer_shapes(graph, {{"w", base::Shape{1}}}).value();
  CHECK(delay_rectifiers(graph, shapes).nodes.size() == graph.nodes.size());
}

TEST_CASE("a rectifier goes behind the max pooling that alone reads it") {
  const Attributes max{{"kernel", "(2, 2)"}};
  CHECK(order_of(pair(max)) == "pool act end");
  CHECK(order_of(pair(max, "tanh")) == "act pool end");
  CHECK(order_of(pair({{"kernel", "(2, 2)"}, {"pool_type", "avg"}})) == "act pool end");
  CHECK(order_of(pair({{"global_pool", "True"}})) == "pool act end");
  Attributes full{{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pooling_convention", "full"}};
  CHECK(order_of(pair(full)) == "pool act end");
  // The last window lies in the padding alone.
  const Attributes outside{{"kernel", "(2, 2)"},
                           {"stride", "(2, 2)"},
                           {"pad", "(1, 1)"},
                           {"pooling_convention", "full"}};
  CHECK(order_of(pair(outside), {2, 3, 8, 8}) == "pool act end");
  CHECK(order_of(pair(outside), {2, 3, 7, 8}) == "act pool end");
  CHECK(order_of(pair({{"kernel", "(2, 2)"}, {"pad", "(1, 1)"}}), {2, 3, 0, 8}) == "act pool end");
  CHECK(order_of(pair(max), {2, 3, -1, 8}) == "act pool end");

  Composer c(table());
  const Symbol x = c.call("activation", "act", {c.variable("data")}, {{"act_type", "relu"}});
  const Symbol pool = c.call("pooling", "pool", {x}, max);
  CHECK(order_of(Symbol::group(std::vector<Symbol>{pool, x})) == "act pool");
  CHECK(order_of(c.finish(pool).value().internals()) == "act pool");
  CHECK(order_of(c.finish(pool).value()) == "pool act");
}

TEST_CASE("a rectifier behind a normalisation, which does its work on the way, stays") {
  Composer c(table());
  const Symbol norm = c.call("batch_norm", "norm", {c.variable("data")});
  const Symbol x = c.call("activation", "act", {norm}, {{"act_type", "relu"}});
  const Symbol pool = c.call("pooling", "pool", {x}, {{"kernel", "(2, 2)"}});
  CHECK(order_of(c.finish(pool).value()) == "norm act pool");
}

/// The rectifiers of `net` and what reads them.
using Tail = std::function<Symbol(Composer&, const Symbol& x, const Symbol& y)>;

/// Outputs and gradients over data with ties, zeros and NaN. `kept`: the rectifiers are outputs
/// too, which keeps them where they are.
Results results(const Tail& tail, bool kept, bool reference) {
  Composer c(table());
  const Symbol data_symbol = c.variable("data");
  const Symbol x = c.call("activation", "x", {data_symbol}, {{"act_type", "relu"}});
  const Symbol y =
      c.call("activation", "y", {c.call("negate", "", {data_symbol})}, {{"act_type", "relu"}});
  std::vector<Symbol> heads{tail(c, x, y)};
  if (kept) heads.insert(heads.end(), {x, y});
  const Symbol net = Symbol::group(heads);
  tests::TestRuntime test;
  Bindings bindings = allocate_bindings(test.runtime, net, {{"data", {2, 17, 9, 10}}}).value();
  const ndarray::NDArray& data = bindings.arguments.at("data");
  fill(data, "data", -3.5, 2.5);
  std::vector<float> numbers = data.to_vector<float>().value();
  for (float& number : numbers) number = std::round(number);
  numbers[7] = std::nanf("");
  REQUIRE(data.write(std::as_bytes(std::span<const float>(numbers))).ok());
  bindings.grad_req["data"] = GradReq::write;
  ExecutorOptions options;
  options.reference_only = reference;
  const auto executor = Executor::bind(test.runtime, net, std::move(bindings), options).value();
  std::vector<ndarray::NDArray> slopes;
  for (const ndarray::NDArray& output : executor->outputs()) {
    slopes.push_back(ndarray::NDArray::zeros(test.runtime, output.shape(), output.dtype()).value());
  }
  fill(slopes[0], "slope", -1, 1);
  REQUIRE(executor->forward(true).ok());
  REQUIRE(executor->backward(slopes).ok());
  return {{"output", bytes_of(executor->outputs()[0])},
          {"gradient", bytes_of(executor->gradients().at("data"))}};
}

TEST_CASE("the bits of outputs and gradients are those of the other order") {
  const auto pool = [](const Attributes& attributes) -> Tail {
    return [attributes](Composer& c, const Symbol& x, const Symbol&) {
      return c.call("pooling", "pool", {x}, attributes);
    };
  };
  const Tail concat = [](Composer& c, const Symbol& x, const Symbol& y) {
    return c.call("concat", "both", {x, y}, {{"num_args", "2"}});
  };
  for (const bool reference : {true, false}) {
    for (const Tail& tail :
         {pool({{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}),
          pool({{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pooling_convention", "full"}}),
          pool({{"kernel", "(3, 3)"}, {"stride", "(1, 1)"}, {"pad", "(1, 1)"}}), concat}) {
      CHECK(results(tail, false, reference) == results(tail, true, reference));
    }
  }
}

}  // namespace
}  // namespace troupe::symbol
