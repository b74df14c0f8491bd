// SPDX-License-Identifier: Apache-2.0
// Symbols as data: composition, lists, inference, JSON, passes, drawing.
#include "symbol/symbol.h"

#include "symbol/describe.h"
#include "symbol/gradient.h"
#include "symbol/passes.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Errc;
using base::Shape;

TEST_CASE("composition makes variables and lists them in topological order") {
  const Symbol net = two_layers();
  CHECK(net.list_arguments() ==
        Names{"data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label"});
  CHECK(net.list_outputs() == Names{"softmax_output"});
  CHECK(net.list_auxiliary_states().empty());
  const Symbol act = net.internals().output("act").value();
  CHECK(act.list_arguments() == Names{"data", "fc1_weight", "fc1_bias"});
  CHECK(net.internals().output("nothing").status().code() == Errc::not_found);
}

TEST_CASE("composition by name, replacement of variables, groups") {
  Composer c(table());
  const Symbol shared = c.variable("w");
  Inputs inputs;
  inputs.named = {{"weight", shared}, {"data", c.variable("x")}};
  const Symbol fc = c.call("FullyConnected", "fc", inputs,
                           {{"num_hidden", "4"}, {"no_bias", "True"}, {"__lr_mult__", "2"}});
  REQUIRE(c.finish(fc).ok());
  CHECK(fc.list_arguments() == Names{"x", "w"});
  const Symbol both = fc.compose({{"x", two_layers()}}).value();
  CHECK(both.list_arguments().front() == "data");
  CHECK(both.list_arguments().back() == "w");
  CHECK(fc.list_arguments() == Names{"x", "w"});
  CHECK(fc.compose({{"y", shared}}).status().code() == Errc::not_found);
  const Symbol pair[] = {fc, two_layers()};
  CHECK(Symbol::group(pair).list_outputs() == Names{"fc_output", "softmax_output"});
}

TEST_CASE("unnamed nodes stay unnamed where symbols are put together") {
  Composer c(table());
  const Symbol block = c.call("activation", "", {c.variable("x")}, {{"act_type", "relu"}});
  const Symbol once = block.compose({{"x", c.call("exp", "", {c.variable("y")})}}).value();
  const Symbol twice = block.compose({{"x", once}}).value();
  CHECK(twice.validate().ok());
  CHECK(twice.list_outputs() == Names{"activation1_output"});
  CHECK(block.compose({{"x", twice}}).value().validate().ok());
}

TEST_CASE("variables that an operator makes learn and begin as it says") {
  Composer c(table());
  const Symbol fc = c.call(
      "fully_connected", "fc", {c.variable("data")},
      {{"num_hidden", "4"}, {"__lr_mult__", "0"}, {"__init__", "zeros"}, {"__shape__", "(4,)"}});
  const Symbol net = c.finish(fc).value();
  for (const GraphNode& node : net.graph().nodes) {
    INFO(node.name);
    CHECK(node.extra.contains("__lr_mult__") == (node.name != "data"));
    CHECK(node.extra.contains("__init__") == (node.name != "data"));
    CHECK(node.extra.contains("__shape__") == (node.name == "fc"));
  }
  const Symbol norm = c.finish(c.call("batch_norm", "bn", {c.variable("data")},
                                      {{"__init__", "normal"}, {"__wd_mult__", "0"}}))
                          .value();
  for (const GraphNode& node : norm.graph().nodes) {
    INFO(node.name);
    CHECK(node.extra.contains("__init__") ==
          (node.name != "data" && node.name.find("moving") == std::string::npos));
  }
}

TEST_CASE("wrong calls name operator, node and input") {
  const Symbol x = Symbol::variable("x");
  const auto create = [](std::string_view op, std::string name, const Inputs& inputs,
                         const ops::Attributes& attributes = {}) {
    return Symbol::create(table(), op, std::move(name), inputs, attributes).status();
  };
  CHECK(create("convolutoin", "c", {}).code() == Errc::not_found);
  CHECK(mentions(create("fully_connected", "fc", {{x}, {}}), {"fully_connected fc", "num_hidden"}));
  CHECK(mentions(create("add", "", {{x}, {}}), {"add", "name", "rhs"}));
  CHECK(mentions(create("exp", "e", {{x, x}, {}}), {"exp e", "1 inputs", "2 are given"}));
  CHECK(mentions(create("exp", "e", {{x}, {{"data", x}}}), {"data", "twice"}));
  CHECK(mentions(create("exp", "e", {{}, {{"date", x}}}), {"no input 'date'"}));
  CHECK(mentions(create("exp", "e", {{two_layers().internals()}, {}}), {"one value"}));
  CHECK(mentions(create("exp", "e", {{x}, {}}, {{"colour", "red"}}), {"exp e", "colour"}));
  Composer c(table());
  const Symbol bad = c.call("exp", "", {c.call("nonsense", "", {x})});
  CHECK(bad.output_count() == 0);
  CHECK(c.finish(bad).status().code() == Errc::not_found);
  Composer twins(table());
  const Symbol sum = twins.call("add", "s", {twins.variable("x"), x});
  CHECK(mentions(twins.finish(sum).status(), {"'x'"}));
}

TEST_CASE("shapes are inferred in both directions") {
  const Symbol net = two_layers();
  const InferredShapes shapes = net.infer_shapes({{"data", Shape{8, 5}}}).value();
  CHECK(shapes.complete);
  CHECK(shapes.arguments == std::vector<Shape>{{8, 5}, {4, 5}, {4}, {3, 4}, {3}, {8}});
  CHECK(shapes.outputs == std::vector<Shape>{{8, 3}});
  CHECK(!net.infer_shapes({}).value().complete);

  Composer c(table());
  const Symbol sum = c.call("add_n", "s", {c.variable("a"), c.variable("b")}, {{"num_args", "2"}});
  const Symbol out = c.call("exp", "e", {sum});
  CHECK(out.infer_shapes({{"b", Shape{2, 7}}}).value().arguments.front() == Shape{2, 7});
}

TEST_CASE("inference errors name node, operator and shapes") {
  const Symbol net = two_layers();
  CHECK(mentions(net.infer_shapes({{"data", Shape{8, 5}}, {"fc1_weight", Shape{4, 6}}}).status(),
                 {"fully_connected fc1", "(8, 5)", "(4, 6)"}));
  CHECK(mentions(net.infer_shapes({{"dato", Shape{8, 5}}}).status(), {"dato"}));
  const Symbol bad = Symbol::variable("v", {{"__shape__", "(1, x)"}});
  CHECK(mentions(bad.infer_shapes({}).status(), {"variable v", "__shape__"}));
  const auto dtypes = net.infer_dtypes({{"data", base::DType::f64}}).value();
  CHECK(dtypes.arguments[1] == base::DType::f64);
  CHECK(mentions(
      net.infer_dtypes({{"data", base::DType::f64}, {"fc1_bias", base::DType::f32}}).status(),
      {"fully_connected fc1", "f64", "f32"}));
}

TEST_CASE("shapes of more elements than can be counted are errors, not overflows") {
  Composer c(table());
  const Symbol fc =
      c.call("fully_connected", "fc", {c.variable("data")}, {{"num_hidden", "2147483647"}});
  const auto status = [&](const Shape& data) { return fc.infer_shapes({{"data", data}}).status(); };
  CHECK(mentions(status({1, 1'024}),
                 {"fully_connected fc", "(2147483647, 1024)", "more than 2^40 elements"}));
  constexpr std::int64_t kHalf = std::int64_t{1} << 32;  // whose square is 0 in 64 bits
  CHECK(mentions(status({kHalf, kHalf}), {"data", "more than 2^40 elements"}));
  CHECK(mentions(status({base::kUnknownDim, kHalf, kHalf}), {"more than 2^40 elements"}));
}

TEST_CASE("JSON round trip keeps the symbol") {
  for (const std::string& name : network_names()) {
    const Symbol net = make_network(table(), name).value();
    const std::string text = net.to_json();
    const Symbol again = Symbol::from_json(table(), text).value();
    CHECK(again.to_json() == text);
    CHECK(again.list_arguments() == net.list_arguments());
    CHECK(again.list_auxiliary_states() == net.list_auxiliary_states());
    const Names wrt{net.list_arguments()[1]};
    const Symbol slope = gradient(table(), net, wrt).value();
    CHECK(Symbol::from_json(table(), slope.to_json()).value().to_json() == slope.to_json());
  }
}

TEST_CASE("a saved symbol loads as the same") {
  const TestFolder folder("symbol_save");
  const std::string path = folder.path() / "net.json";
  const Symbol net = two_layers();
  REQUIRE(net.save(path).ok());
  CHECK(Symbol::load(table(), path).value().to_json() == net.to_json());
  CHECK(net.save(folder.path() / "nowhere" / "net.json").code() == Errc::not_found);
}

TEST_CASE("malformed JSON gives one error that says where") {
  const auto fault = [](std::string text) { return Symbol::from_json(table(), text).status(); };
  CHECK(mentions(fault("{\"nodes\": [}"), {"byte 12"}));
  CHECK(mentions(fault(""), {"byte"}));
  CHECK(mentions(fault("[]"), {"object"}));
  CHECK(mentions(fault("{}"), {"nodes"}));
  const base::Status huge = fault("{\"nodes\": 1" + std::string(900'000, '0') + "}");
  CHECK(mentions(huge, {"symbol JSON", "number overflow", "..."}));
  CHECK(huge.text().size() < 200);
  CHECK(mentions(fault(R"({"nodes": [7]})"), {"node 0"}));
  CHECK(mentions(fault(R"({"nodes": [{"op": "null", "name": "x", "inputs": []}], "heads": []})"),
                 {"heads"}));
  const std::string start = R"({"nodes": [{"op": "null", "name": "x", "inputs": []}, )";
  const std::string end = R"(], "heads": [[1, 0, 0]]})";
  const auto node = [&](const std::string& text) { return fault(start + text + end); };
  CHECK(mentions(node(R"({"op": "exp", "name": "e", "inputs": [[1, 0, 0]]})"),
                 {"node 1 'e'", "not before"}));
  CHECK(mentions(node(R"({"op": "exp", "name": "e", "inputs": [[0, 3, 0]]})"), {"no output 3"}));
  CHECK(mentions(node(R"({"op": "exp", "name": "e", "inputs": [[-1, 0, 0]]})"), {"reference"}));
  CHECK(mentions(node(R"({"op": "exp", "name": "e", "inputs": [[0]]})"), {"reference"}));
  CHECK(mentions(node(R"({"op": "exp", "name": "e", "inputs": 3})"), {"inputs"}));
  CHECK(mentions(node(R"({"op": "pex", "name": "e", "inputs": [[0, 0]]})"), {"node 1 'e'", "pex"}));
  CHECK(mentions(node(R"({"op": "exp", "name": "e", "inputs": [[0,0]], "attrs": {"a": 1}})"),
                 {"node 1 'e'", "'a'"}));
  CHECK(mentions(node(R"({"op": "exp", "inputs": [[0, 0]]})"), {"name"}));
  CHECK(Symbol::load(table(), "/nonexistent/net.json").status().code() == Errc::not_found);
  const std::string good = two_layers().to_json();
  for (std::size_t cut = 0; cut < good.size(); cut += 7) CHECK(!fault(good.substr(0, cut)).ok());
  for (std::size_t at = 0; at < good.size(); at += 3) {
    std::string garbled = good;
    garbled[at] = static_cast<char>(garbled[at] ^ 0x15);
    static_cast<void>(Symbol::from_json(table(), garbled));
  }
}

/// A file of calls of one operator, all of one variable.
std::string calls_in_json(int calls, const std::string& op) {
  std::string text = R"({"nodes": [{"op": "null", "name": "x", "inputs": []})";
  for (int i = 0; i < calls; ++i) {
    text += fmt::format(R"(, {{"name": "s{}", "inputs": [[0, 0]], {}}})", i, op);
  }
  return text + fmt::format(R"(], "heads": [[{}, 0]]}})", calls);
}

TEST_CASE("a file may make so many values and no more") {
  const std::string split = R"("op": "SliceChannel", "attrs": {"num_outputs": "256"})";
  const auto read = [&](std::size_t calls, const std::string& op) {
    return Symbol::from_json(table(), calls_in_json(static_cast<int>(calls), op)).status();
  };
  constexpr std::size_t kSplits = (kJsonValuesMax - 1) / 256;
  CHECK(read(kSplits, split).ok());
  for (const std::size_t calls : {kSplits + 1, std::size_t{12'000}}) {
    const base::Status status = read(calls, split);
    CHECK(status.code() == Errc::resource_exhausted);
    CHECK(mentions(status, {fmt::format("more than {} values", kJsonValuesMax).c_str()}));
  }
  // So are outputs, whose names are as long as their nodes'.
  std::string heads = "[0, 0]";
  for (std::size_t i = 0; i < kJsonValuesMax; ++i) heads += ", [0, 0]";
  constexpr const char* kVariable = R"({{"nodes": [{{"op": "null", "name": "{}", "inputs": []}}],
                                        "heads": [{}]}})";
  const auto one = [&](const std::string& name, const std::string& of_heads) {
    return Symbol::from_json(table(), fmt::format(fmt::runtime(kVariable), name, of_heads))
        .status();
  };
  CHECK(mentions(one("x", heads), {"values"}));
  CHECK(one(std::string(4'096, 'x'), "[0, 0]").ok());
  CHECK(mentions(one(std::string(4'097, 'x'), "[0, 0]"), {"4097 bytes", "limit is 4096"}));
  // Names that follow from a long one count as long.
  const auto sum_of = [&](std::size_t calls, const std::string& name) {
    std::string nodes;
    for (std::size_t i = 0; i < calls; ++i) {
      nodes += fmt::format(R"({}{{"op": "add_n", "name": "{}{}", "attrs": {{"num_args": "250"}},
                              "inputs": []}})",
                           i == 0 ? "" : ", ", name, i);
    }
    const std::string text = fmt::format(R"({{"nodes": [{}], "heads": [[0, 0]]}})", nodes);
    return Symbol::from_json(table(), text).status();
  };
  CHECK(sum_of(40, std::string(3'000, 'x')).ok());
  CHECK(mentions(sum_of(50, std::string(3'000, 'x')), {"names", "33554432 bytes"}));
  // Inputs that the file leaves out are values, too.
  const std::string sum = R"("op": "add_n", "attrs": {"num_args": "256"})";
  CHECK(read(kJsonValuesMax / 256 - 1, sum).ok());
  CHECK(mentions(read(kJsonValuesMax / 256 + 1, sum), {"values"}));
}

TEST_CASE("brackets in a file are counted before it is parsed, but not those in its texts") {
  const auto status = [](const std::string& text) {
    return Symbol::from_json(table(), text).status();
  };
  CHECK(mentions(status(std::string(65, '[')), {"nested deeper than 64 levels"}));
  CHECK(mentions(status(std::string(64, '[')), {"not JSON"}));
  const std::string brackets = std::string(200, '[') + R"(\"[\\)";
  CHECK(status(R"({"nodes": [{"op": "null", "name": ")" + brackets +
               R"(", "inputs": []}], "heads": [[0, 0]]})")
            .ok());
}

TEST_CASE("a new node has the first free name of its prefix and operator") {
  Graph graph;
  Builder builder(table(), graph, "p");
  const Value x = builder.add_variable("x");
  builder.add_variable("p_exp3");
  const auto added = [&](const std::string& op) { return graph.node(builder.add1(op, {x})).name; };
  CHECK(added("exp") == "p");
  CHECK(added("exp") == "p_exp");
  CHECK(added("negate") == "p_negate");
  CHECK(added("exp") == "p_exp2");
  CHECK(added("exp") == "p_exp4");  // the third is taken
  builder.set_prefix("q");
  CHECK(added("exp") == "q");
  CHECK(added("exp") == "q_exp");
  builder.add_variable("p_exp5");
  builder.set_prefix("p");
  CHECK(added("exp") == "p_exp6");
  CHECK(added("negate") == "p_negate2");
}

TEST_CASE("a very long chain of nodes is built, saved and destroyed without recursion") {
  Symbol net = Symbol::variable("x");
  for (int i = 0; i < 200'000; ++i) {
    net = Symbol::create(table(), "negate", "", {{net}, {}}).value();
  }
  CHECK(net.graph().nodes.size() == 200'001);
}

TEST_CASE("prune, common subexpressions and freeze") {
  Composer c(table());
  const Symbol x = c.variable("x");
  const Symbol pair[] = {c.call("exp", "a", {x}), c.call("exp", "b", {x})};
  const Symbol sum = c.call("add", "s", {pair[0], pair[1]});
  CHECK(prune(eliminate_common_subexpressions(sum.graph())).nodes.size() == 3);

  const Symbol net = make_network(table(), "tiny-bn").value();
  const Graph frozen = freeze(table(), net.graph()).value();
  for (const GraphNode& node : frozen.nodes) {
    CHECK(node.name != "softmax_label");
    if (!node.is_variable()) {
      CHECK(node.op->name != "dropout");
      CHECK(node.op->name != "batch_norm");
    }
  }
  REQUIRE(frozen.heads.size() == 1);
  CHECK(frozen.value_name(frozen.heads[0]) == "softmax_output");  // the probabilities, no logits
  Graph wider = sum.graph();
  const std::size_t nodes = wider.nodes.size();
  wider.heads.front() = {1, 0};
  CHECK(prune(wider).nodes.size() < nodes);
}

TEST_CASE("what an operator gives in training only does not exist in prediction") {
  const auto frozen = [](const std::string& op) {
    Graph graph;
    Builder builder(table(), graph);
    const Value data = builder.add_variable("data");
    builder.set_prefix("drop");
    const Value mask = builder.add("dropout", {data}, {})[1];
    builder.set_prefix("user");
    const ops::Attributes window = {{"kernel", "(2, 2)"}};
    graph.heads = {builder.add(op, {mask}, op == "exp" ? ops::Attributes() : window).front()};
    return freeze(table(), graph).status();
  };
  for (const char* op : {"exp", "pooling"}) {  // one with a form of its own for prediction
    CHECK(mentions(frozen(op), {"drop_mask does not exist in prediction"}));
  }
}

TEST_CASE("drawing") {
  const Symbol net = make_network(table(), "lenet").value();
  const std::map<std::string, Shape> known{{"data", Shape{32, 1, 28, 28}}};
  const std::string dot = to_dot(net, known);
  CHECK(dot.find("digraph") == 0);
  CHECK(dot.find("(32, 20, 24, 24)") != std::string::npos);
  CHECK(dot.find("num_filter=20") != std::string::npos);
}

TEST_CASE("unknown networks and impossible options") {
  CHECK(mentions(make_network(table(), "something else").status(), {"there are mlp", "tiny-bn"}));
  CHECK(mentions(make_network(table(), "lenett").status(), {"lenett", "did you mean 'lenet'"}));
  CHECK(!make_network(table(), "lenet", {.classes = 0}).ok());
  CHECK(!make_network(table(), "tiny-bn", {.dropout = 1.0}).ok());
}

}  // namespace
}  // namespace troupe::symbol
