// SPDX-License-Identifier: Apache-2.0
// Layouts of a residual network: what its additions do to them, forward and backward. And a decoder
// in the layouts that its kernels like.
#include "symbol/layouts.h"

#include <algorithm>
#include <set>
#include <string>

#include "ops/support/winograd.h"
#include "tests/support/catch.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

/// The first two units of a ResNet with bottlenecks, as its 50-layer form has them: one with a
/// projection on the shortcut, one without.
Symbol residual_network() {
  Composer c(table());
  const auto convolve = [&](const Symbol& data, const std::string& name, const char* filters,
                            int kernel) {
    const std::string extent = std::to_string(kernel);
    const std::string pad = std::to_string(kernel / 2);
    const Symbol convolved = c.call("convolution", name, {data},
                                    {{"num_filter", filters},
                                     {"kernel", "(" + extent + ", " + extent + ")"},
                                     {"pad", "(" + pad + ", " + pad + ")"},
                                     {"no_bias", "True"}});
    return c.call("batch_norm", name + "_bn", {convolved}, {{"fix_gamma", "False"}});
  };
  const auto relu = [&](const Symbol& data, const std::string& name) {
    return c.call("activation", name, {data}, {{"act_type", "relu"}});
  };
  Symbol net = relu(convolve(c.variable("data"), "stem", "16", 3), "stem_relu");
  for (const std::string unit : {"unit1", "unit2"}) {
    const Symbol shortcut = unit == "unit1" ? convolve(net, "unit1_shortcut", "64", 1) : net;
    Symbol body = relu(convolve(net, unit + "_a", "16", 1), unit + "_a_relu");
    body = relu(convolve(body, unit + "_b", "16", 3), unit + "_b_relu");
    body = convolve(body, unit + "_c", "64", 1);
    net = relu(c.call("add", unit + "_sum", {body, shortcut}), unit + "_relu");
  }
  net = c.call("pooling", "pool", {net}, {{"global_pool", "True"}, {"pool_type", "avg"}});
  net = c.call("fully_connected", "fc", {c.call("flatten", "flat", {net})}, {{"num_hidden", "10"}});
  return c.finish(c.call("softmax_output", "softmax", {net})).value();
}

TEST_CASE("residual additions and their gradients keep blocked layouts", "[onednn]") {
  tests::TestRuntime test;
  const Symbol net = residual_network();
  Bindings bindings = make_bindings(test.runtime, net, {4, 3, 16, 16});
  const auto executor = Executor::bind(test.runtime, net, bindings).value();
  const ExecutorReport& report = executor->report();
  bool blocks = false;
  for (const NodeReport& node : report.nodes) {
    blocks |= node.op == "convolution" && !node.outputs[0].ends_with("dense");
  }
  int sums = 0;
  for (const NodeReport& node : report.nodes) {
    INFO(node.op << " " << node.name << ": " << node.outputs[0]);
    CHECK(node.op != "reduce_to_like");
    // A relu's gradient adds what meets before it; a sum and the relu behind it are a chain.
    const bool adds = node.op == "fused_pointwise" ||
                      (node.op == "activation_backward" && node.inputs.size() > 2);
    if (node.op != "add" && node.op != "add_n" && !adds) continue;
    ++sums;
    CHECK(node.outputs[0].ends_with("dense") == !blocks);
  }
  CHECK(sums == 4);  // forward two; backward, where two gradients meet, two
  for (const std::string& reorder : report.reorders) {
    INFO(reorder);
    // Weights on their way in, their gradients on their way out, the step into the dense end and
    // out of it: no activation between two convolutions changes its layout.
    const bool weight = reorder.find("weight") != std::string::npos;
    const bool border = reorder.ends_with("for flat") ||
                        reorder.find("pool") != std::string::npos || reorder.starts_with("data ") ||
                        reorder.find("stem") != std::string::npos;
    CHECK((weight || border));
  }
  // Nobody wants the gradient of the images.
  const auto count = [](const ExecutorReport& of, std::string_view op) {
    return std::count_if(of.nodes.begin(), of.nodes.end(),
                         [&](const NodeReport& node) { return node.op == op; });
  };
  const auto convolutions = count(report, "convolution");
  CHECK(convolutions == 8);
  CHECK(count(report, "convolution_backward_weights") == convolutions);
  CHECK(count(report, "convolution_backward_data") == convolutions - 1);
  Bindings wanted = bindings;
  wanted.grad_req["data"] = GradReq::write;
  const auto with_data = Executor::bind(test.runtime, net, wanted).value();
  CHECK(count(with_data->report(), "convolution_backward_data") == convolutions);
  // The same values as with dense tensors everywhere.
  ExecutorOptions dense;
  dense.layouts = base::LayoutPolicy::dense;
  const auto plain = Executor::bind(test.runtime, net, bindings, dense).value();
  CHECK(plain->report().reorders.empty());
  for (Executor* each : {executor.get(), plain.get()}) {
    REQUIRE(each->forward(true).ok());
    REQUIRE(each->backward().ok());
  }
  const Results x = results_of(*plain), y = results_of(*executor);
  for (const auto& [name, bytes] : x) {
    INFO(name);
    CHECK(distance<float>(bytes, y.at(name)) < 1e-3);
  }
}

/// The forward graph with kernels, for data of this shape.
PreparedGraph prepared(tests::TestRuntime& test, const Symbol& net, const base::Shape& data,
                       const PrepareOptions& options = {}) {
  const Graph graph = net.graph();
  const ValueShapes shapes = infer_shapes(graph, {{"data", data}}).value();
  const ValueDTypes dtypes = infer_dtypes(graph, {}, base::DType::f32).value();
  return choose_layouts(test.runtime, graph, shapes, dtypes, options).value();
}

TEST_CASE("no node has a better offer than the one it took") {
  tests::TestRuntime test;
  const PreparedGraph result = prepared(test, residual_network(), {4, 3, 16, 16});
  int weighed = 0;
  for (std::size_t i = 0; i < result.graph.nodes.size(); ++i) {
    if (result.plans[i].alternatives.empty()) continue;
    INFO(result.graph.nodes[i].name);
    const auto cost = [](const Alternative& offer) {
      return offer.seconds + offer.reorder_seconds;
    };
    const auto& list = result.plans[i].alternatives;
    const auto taken = std::ranges::find_if(list, [&](const Alternative& offer) {
      return offer.kernel == result.kernels[i]->name() &&
             offer.outputs.front() == result.layouts[result.numbers.begin(i)];
    });
    REQUIRE(taken != list.end());
    CHECK(cost(*taken) <= cost(*std::ranges::min_element(list, {}, cost)) * (1 + 1e-6));
    weighed += static_cast<int>(list.size());
  }
  CHECK(weighed > 40);
}

/// Seconds of the reorders of a value to all layouts that somebody wants, from the plans of all.
double seconds_of_reorders(const Graph& graph, const std::vector<const NodePlan*>& plans,
                           Value value) {
  const auto produced = plans[node_index(value)];
  const auto out = static_cast<std::size_t>(value.output);
  const base::Layout own = produced ? produced->offer.outputs[out] : base::Layout::dense();
  std::vector<base::Layout> wanted = {own};
  double seconds = 0;
  const auto want = [&](const base::Layout& layout, ops::OpCall call, ops::TensorDesc desc) {
    if (std::ranges::find(wanted, layout) != wanted.end()) return;
    wanted.push_back(layout);
    call.op = &table().at("reorder");
    call.params = {};
    desc.any_layout = false;
    desc.layout = own;
    call.inputs = {desc};
    desc.layout = layout;
    call.outputs = {desc};
    seconds += ops::offers(call).value().front().seconds;
  };
  if (std::ranges::find(graph.heads, value) != graph.heads.end()) {
    want(base::Layout::dense(), produced->call, produced->call.outputs[out]);
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (std::size_t k = 0; k < graph.nodes[i].inputs.size(); ++k) {
      if (graph.nodes[i].inputs[k] != value || !graph.nodes[i].reads(k)) continue;
      want(plans[i]->offer.inputs[k], plans[i]->call, plans[i]->call.inputs[k]);
    }
  }
  return seconds;
}

/// A value that many read, in layouts of several kinds, behind a convolution and before others.
Symbol much_read() {
  Composer c(table());
  const ops::Attributes convolution = {{"num_filter", "32"}, {"kernel", "(3, 3)"}};
  const Symbol shared = c.call("convolution", "shared", {c.variable("data")}, convolution);
  std::vector<Symbol> heads = {shared};
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    heads.push_back(c.call("softmax", "softmax" + number, {shared}, {{"axis", "1"}}));
    heads.push_back(c.call("convolution", "conv" + number, {shared}, convolution));
    heads.push_back(c.call("exp", "exp" + number, {c.call("negate", "negate" + number, {shared})}));
    const Symbol twice = c.call("multiply", "twice" + number, {shared, shared});
    heads.push_back(c.call("fully_connected", "fc" + number, {twice}, {{"num_hidden", "3"}}));
  }
  return c.finish(Symbol::group(heads)).value();
}

TEST_CASE("a node pays for each layout that is wanted of the values around it, once") {
  tests::TestRuntime test;
  const Graph graph = much_read().graph();
  const PreparedGraph result = prepared(test, much_read(), {4, 16, 12, 12});
  std::vector<const NodePlan*> plans;
  for (const GraphNode& node : graph.nodes) {
    const auto it = std::ranges::find(result.graph.nodes, node.name, &GraphNode::name);
    REQUIRE(it != result.graph.nodes.end());
    const auto at = static_cast<std::size_t>(it - result.graph.nodes.begin());
    plans.push_back(node.is_variable() ? nullptr : &result.plans[at]);
  }
  double all = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (plans[i] == nullptr) continue;
    const GraphNode& node = graph.nodes[i];
    INFO(node.name);
    double seconds = 0;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const auto end = node.inputs.begin() + static_cast<std::ptrdiff_t>(k);
      if (std::find(node.inputs.begin(), end, node.inputs[k]) != end) continue;
      seconds += seconds_of_reorders(graph, plans, node.inputs[k]);
    }
    seconds += seconds_of_reorders(graph, plans, {static_cast<std::int64_t>(i), 0});
    const ops::Offer& offer = plans[i]->offer;
    const auto taken = std::ranges::find_if(plans[i]->alternatives, [&](const Alternative& each) {
      return each.kernel == offer.kernel && each.inputs == offer.inputs &&
             each.outputs == offer.outputs;
    });
    REQUIRE(taken != plans[i]->alternatives.end());
    CHECK(taken->reorder_seconds == seconds);
    all += seconds;
  }
  CHECK(all > 0);
}

/// One convolution with many weights for few places.
Symbol wide_convolution() {
  Composer c(table());
  return c
      .finish(c.call(
          "convolution", "wide", {c.variable("data")},
          {{"num_filter", "512"}, {"kernel", "(3, 3)"}, {"pad", "(1, 1)"}, {"no_bias", "True"}}))
      .value();
}

std::string kernel_of(const PreparedGraph& result, const std::string& name) {
  for (std::size_t i = 0; i < result.graph.nodes.size(); ++i) {
    if (result.graph.nodes[i].name == name) return result.kernels[i]->name();
  }
  return "none";
}

/// An image made smaller and larger again: a gated decoder.
Symbol decoder() {
  Composer c(table());
  Symbol net = c.call("convolution", "conv", {c.variable("data")},
                      {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"num_filter", "32"}});
  net = c.call("leaky_relu", "leaky", {net});
  net = c.call("lrn", "norm", {net}, {{"nsize", "5"}, {"alpha", "0.5"}});
  net = c.call("deconvolution", "up1", {net},
               {{"kernel", "(4, 4)"}, {"stride", "(2, 2)"}, {"num_filter", "32"}});
  net = c.call("leaky_relu", "gelu", {net}, {{"act_type", "gelu"}});
  const Symbol parts = c.call("split", "parts", {net}, {{"num_outputs", "2"}});
  net = c.call("multiply", "gated", {c.call("silu", "gate", {parts[0]}), parts[1]});
  net = c.call("upsampling", "up2", {net}, {{"scale", "2"}, {"sample_type", "nearest"}});
  net = c.call("deconvolution", "smooth", {net},
               {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"no_bias", "False"}});
  net = c.call("leaky_relu", "prelu", {net}, {{"act_type", "prelu"}});
  net = c.call("pad", "border", {net},
               {{"mode", "reflect"}, {"pad_width", "(0, 0, 0, 0, 1, 1, 2, 2)"}});
  net = c.call("transpose", "last", {net}, {{"axes", "(0, 2, 3, 1)"}});
  return c.finish(c.call("expand_dims", "depth", {net}, {{"axis", "1"}})).value();
}

TEST_CASE("a decoder computes on fast kernels what it does on plain ones") {
  const Symbol net = decoder();
  std::vector<Results> results;
  for (const bool reference : {true, false}) {
    tests::TestRuntime test;
    ExecutorOptions options;
    options.reference_only = reference;
    Bindings bindings = make_bindings(test.runtime, net, {2, 3, 13, 11});
    const auto executor = Executor::bind(test.runtime, net, std::move(bindings), options);
    INFO(executor.status().to_string());
    REQUIRE(executor.ok());
    const ndarray::NDArray& output = (*executor)->outputs()[0];
    CHECK((output.shape() == base::Shape{2, 1, 32, 30, 16}));
    const std::vector heads = {
        ndarray::NDArray::zeros(test.runtime, output.shape(), output.dtype()).value()};
    fill(heads[0], "head", -1, 1);
    REQUIRE((*executor)->forward(true).ok());
    REQUIRE((*executor)->backward(heads).ok());
    results.push_back(results_of(**executor));
    CHECK(results.back().size() == 1 + 6);
  }
  for (const auto& [name, bytes] : results[0]) {
    INFO(name);
    CHECK(distance<float>(bytes, results[1].at(name)) <= 1e-5);
  }
}

TEST_CASE("a reorder of weights has its price where it runs each time", "[onednn]") {
  if (ops::winograd_lanes() == 0) return;  // vectors of less than 8 numbers
  tests::TestRuntime test;
  // Winograd's form gains as much as its weights' transform costs at about so many images.
  const base::Shape data{ops::winograd_lanes() / 4, 512, 7, 7};
  const std::set<std::string> weights = {"wide_weight"};
  PrepareOptions once;
  once.weights = &weights;
  CHECK(kernel_of(prepared(test, wide_convolution(), data, once), "wide") == "simd:winograd");
  CHECK(kernel_of(prepared(test, wide_convolution(), data), "wide") != "simd:winograd");
  once.winograd = false;
  CHECK(kernel_of(prepared(test, wide_convolution(), data, once), "wide") != "simd:winograd");
}

}  // namespace
}  // namespace troupe::symbol
