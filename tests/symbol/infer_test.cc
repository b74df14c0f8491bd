// SPDX-License-Identifier: Apache-2.0
// Inference over graphs that tell their shapes bit by bit: what it finds, and whom it asks for
// that.
#include "symbol/infer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::DType;
using base::Shape;

/// Sums of neighbours, v0 + v1, v1 + v2 and so on. As heads the first of them come first, with the
/// last ones between them: each sum lies far from those that it shares a variable with.
Graph zigzag(int sums) {
  Composer c(table());
  std::vector<Symbol> variables = {c.variable("v0")}, made;
  for (int i = 0; i < sums; ++i) {
    variables.push_back(c.variable(fmt::format("v{}", i + 1)));
    const auto at = static_cast<std::size_t>(i);
    made.push_back(c.call("add_n", fmt::format("s{}", i), {variables[at], variables[at + 1]},
                          {{"num_args", "2"}}));
  }
  std::vector<Symbol> heads(made.size());
  std::size_t low = 0, high = made.size();
  for (std::size_t i = 0; i < made.size(); ++i) heads[i % 2 == 0 ? low++ : --high] = made[i];
  return c.finish(Symbol::group(heads)).value().graph();
}

TEST_CASE("what is known at one end of a zigzag reaches the other") {
  constexpr int kSums = 400;
  Graph graph = zigzag(kSums);
  ops::OpDef counted = table().at("add_n");
  int asked = 0;
  counted.infer_shape = [&asked](const ops::Params& params, std::vector<Shape>& inputs,
                                 std::vector<Shape>& outputs) {
    ++asked;
    return ops::infer_same_shape(params, inputs, outputs);
  };
  counted.infer_dtype = [&asked](const ops::Params& params, auto& inputs, auto& outputs) {
    ++asked;
    return ops::infer_same_dtype(params, inputs, outputs);
  };
  for (GraphNode& node : graph.nodes) {
    if (!node.is_variable()) node.op = &counted;
  }
  const std::string first = "v0", last = fmt::format("v{}", kSums);
  for (const std::string& end : {first, last}) {
    INFO(end);
    asked = 0;
    const ValueShapes shapes = infer_shapes(graph, {{end, {2, 3}}}).value();
    CHECK(std::ranges::count(shapes, Shape{2, 3}) == std::ssize(shapes));
    // Once each at first, once for each of the three values, and once to hear nothing new.
    CHECK(asked <= 5 * kSums);
    asked = 0;
    const ValueDTypes known = infer_dtypes(graph, {{end, DType::f64}}).value();
    CHECK(std::ranges::count(known, DType::f64) == std::ssize(known));
    CHECK(asked <= 5 * kSums);
  }
  asked = 0;
  const ValueDTypes unknown = infer_dtypes(graph, {}, DType::f64).value();
  CHECK(std::ranges::count(unknown, DType::f64) == std::ssize(unknown));
  CHECK(asked <= 5 * kSums);
}

TEST_CASE("of two contradictions the first one in the graph's order is told") {
  const Graph graph = zigzag(9);
  const base::Status status =
      infer_shapes(graph, {{"v0", {2}}, {"v1", {3}}, {"v8", {4}}, {"v9", {5}}}).status();
  CHECK(
      mentions(status, {"[add_n s0] shapes (2,) and (3,) contradict", "inputs: v0 (2,), v1 (3,)"}));
  // Here two shapes meet on their way, in the sweep back.
  CHECK(mentions(infer_shapes(graph, {{"v2", {2}}, {"v7", {3}}}).status(),
                 {"[add_n s4]", "inputs: v4 (2,), v5 (3,)"}));
}

TEST_CASE("extents of one shape may come from several sides") {
  Composer c(table());
  std::vector<Symbol> parts;
  for (const char* name : {"x", "y", "z"}) parts.push_back(c.variable(name));
  const Symbol xy = c.call("add_n", "xy", {parts[0], parts[1]}, {{"num_args", "2"}});
  const Symbol yz = c.call("add_n", "yz", {parts[1], parts[2]}, {{"num_args", "2"}});
  const Symbol both[] = {xy, yz};
  const Graph graph = Symbol::group(both).graph();
  constexpr std::int64_t kAny = base::kUnknownDim;
  const ValueShapes shapes =
      infer_shapes(graph, {{"x", {4, kAny, kAny}}, {"y", {kAny, kAny, 6}}, {"z", {kAny, 5, kAny}}})
          .value();
  CHECK(std::ranges::count(shapes, Shape{4, 5, 6}) == std::ssize(shapes));
}

TEST_CASE("what two sides say together may be more than can be counted") {
  Composer c(table());
  const Symbol like = c.variable("like");
  const Symbol same = c.call("reshape_like", "same", {c.variable("x"), like});
  const Symbol heads[] = {c.call("add_n", "first", {same, c.variable("b")}, {{"num_args", "2"}}),
                          c.call("add_n", "second", {like, c.variable("c")}, {{"num_args", "2"}})};
  constexpr std::int64_t kHalf = std::int64_t{1} << 32;  // whose square is 0 in 64 bits
  const base::Status status =
      infer_shapes(
          Symbol::group(heads).graph(),
          {{"x", {4}}, {"b", {base::kUnknownDim, kHalf}}, {"c", {kHalf, base::kUnknownDim}}})
          .status();
  CHECK(mentions(status, {"reshape_like same", "(4294967296, 4294967296)"}));
}

}  // namespace
}  // namespace troupe::symbol
