// SPDX-License-Identifier: Apache-2.0
// Weights are brought into a kernel's layout once per version, and never give an old result.
#include "symbol/prologue.h"

#include <algorithm>
#include <set>
#include <string>

#include "ndarray/invoke.h"
#include "symbol/networks/networks.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using ndarray::NDArray;

/// Two convolutions of 16 channels, and the scores of what they leave.
Symbol convolutions() {
  Composer c(table());
  Symbol net = c.variable("data");
  for (const char* name : {"conv1", "conv2"}) {
    net = c.call("convolution", name, {net},
                 {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"no_bias", "True"}});
  }
  net = c.call("fully_connected", "fc", {c.call("flatten", "flat", {net})}, {{"num_hidden", "4"}});
  return c.finish(c.call("softmax_output", "softmax", {net})).value();
}

/// An executor for prediction and what its forward passes push.
struct Predicting {
  tests::TestRuntime test;
  std::unique_ptr<Executor> executor;

  explicit Predicting(const Symbol& net, base::LayoutPolicy layouts = base::LayoutPolicy::chosen)
      : Predicting(net, ExecutorOptions{.layouts = layouts, .train = false}) {}
  Predicting(const Symbol& net, const ExecutorOptions& options,
             const base::Shape& data = {2, 16, 8, 8}) {
    Bindings bindings = make_bindings(test.runtime, net, data);
    bindings.grad_req.clear();
    executor = Executor::bind(test.runtime, net, std::move(bindings), options).value();
  }
  std::uint64_t pushed() {
    const std::uint64_t before = test.engine->counters().pushed;
    REQUIRE(executor->forward(false).ok());
    return test.engine->counters().pushed - before;
  }
  Bytes output() const { return bytes_of(executor->outputs()[0]); }
  const NDArray& weight(const char* name) const { return executor->arguments().at(name); }
};

/// Weights that are kept in another layout.
std::uint64_t kept_nodes(const Predicting& p) {
  const auto& nodes = p.executor->report().nodes;
  return static_cast<std::uint64_t>(std::ranges::count_if(nodes, [](const NodeReport& node) {
    return node.op == "reorder" && node.inputs[0].find("_weight") != std::string::npos;
  }));
}

TEST_CASE("what is given anew for each pass is no weight, whatever its name is") {
  Composer c(table());
  Symbol net = c.call("convolution", "conv1", {c.variable("picture")},
                      {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"no_bias", "True"}});
  net = c.finish(net).value();
  const auto kept_bytes = [&](const std::vector<std::string>& inputs) {
    tests::TestRuntime test;
    Bindings bindings = allocate_bindings(test.runtime, net, {{"picture", {2, 16, 8, 8}}},
                                          base::DType::f32, {}, Content::initial)
                            .value();
    ExecutorOptions options{.products = base::DType::bf16, .train = false};
    options.inputs = inputs;
    return Executor::bind(test.runtime, net, std::move(bindings), options)
        .value()
        ->report()
        .prologue_bytes;
  };
  CHECK(kept_bytes({"picture"}) < kept_bytes({}));
}

TEST_CASE("a prediction reorders no weights unless they have changed", "[onednn]") {
  Predicting p(convolutions());
  const std::uint64_t kept = kept_nodes(p);
  REQUIRE(kept > 0);
  const std::uint64_t steps = p.executor->report().nodes.size();
  CHECK(p.executor->report().prologue_bytes >= kept * 16 * 16 * 9 * sizeof(float));
  CHECK(p.pushed() > steps);  // it sizes memory, too
  const Bytes first = p.output();
  CHECK(p.pushed() == steps - kept);
  CHECK(p.output() == first);

  fill(p.executor->arguments().at("data"), "other data", 0.0, 1.0);
  CHECK(p.pushed() == steps - kept);
  CHECK(p.output() != first);
  fill(p.executor->arguments().at("data"), "data", 0.0, 1.0);
  fill(p.weight("conv2_weight"), "other weight", -0.1, 0.1);
  CHECK(p.pushed() == steps - kept + 1);
  const Bytes second = p.output();
  CHECK(second != first);
  fill(p.weight("conv2_weight"), "conv2_weight", -0.1, 0.1);
  CHECK(p.pushed() == steps - kept + 1);
  CHECK(p.output() == first);
}

/// Nodes that a change of the data changes.
std::uint64_t nodes_behind_data(const ExecutorReport& report) {
  const auto name_of = [](const std::string& value) { return value.substr(0, value.find(' ')); };
  std::set<std::string> behind = {"data"};
  std::uint64_t count = 0;
  for (const NodeReport& node : report.nodes) {
    const bool reads = std::ranges::any_of(
        node.inputs, [&](const std::string& input) { return behind.contains(name_of(input)); });
    if (!reads) continue;
    ++count;
    for (const std::string& output : node.outputs) behind.insert(name_of(output));
  }
  return count;
}

TEST_CASE("from the second prediction on, networks run nothing that depends on weights alone") {
  for (const char* name : {"vgg16", "googlenet", "resnet50"}) {
    INFO(name);
    const Symbol net = make_network(table(), name, {.classes = 10}).value();
    ExecutorOptions options;
    options.train = false;
    options.sub_batch = 1;
    Predicting p(net, options, base::Shape{1, 3, 32, 32});
    const std::uint64_t nodes = p.executor->report().nodes.size();
    const std::uint64_t behind = nodes_behind_data(p.executor->report());
    CHECK(behind < nodes);
    CHECK(p.pushed() >= nodes);
    CHECK(p.pushed() == behind);
    CHECK(p.pushed() == behind);
  }
}

TEST_CASE("what is kept follows every way of writing a weight") {
  Predicting kept(convolutions());
  Predicting fresh(convolutions(), base::LayoutPolicy::dense);  // reorders nothing
  CHECK(fresh.executor->report().prologue_bytes == 0);
  const auto agree = [&] {
    kept.pushed();
    fresh.pushed();
    const auto a = kept.executor->outputs()[0].to_vector<float>().value();
    const auto b = fresh.executor->outputs()[0].to_vector<float>().value();
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-4));
    return a;
  };
  const auto first = agree();
  for (Predicting* each : {&kept, &fresh}) {  // a part of it
    fill(each->weight("conv1_weight").slice(3, 5), "part", -1.0, 1.0);
  }
  const auto second = agree();
  CHECK(second != first);
  for (Predicting* each : {&kept, &fresh}) {  // a lazy operation
    const NDArray weight = each->weight("conv1_weight");
    REQUIRE(weight.copy_from(ndarray::operator*(weight, 2.0)).ok());
  }
  const auto third = agree();
  CHECK(third != second);
  for (Predicting* each : {&kept, &fresh}) {  // another buffer in its place
    const NDArray& weight = each->weight("conv1_weight");
    const NDArray other =
        NDArray::zeros(each->test.runtime, weight.shape(), weight.dtype()).value();
    fill(other, "rebound", -1.0, 1.0);
    REQUIRE(other.wait().ok());
    REQUIRE(weight.rebind(other.buffer(), true).ok());
  }
  CHECK(agree() != third);
}

TEST_CASE("an error is kept no longer than it lasts") {
  Predicting p(convolutions());
  const std::uint64_t kept = kept_nodes(p);
  p.pushed();
  const Bytes good = p.output();
  const NDArray& weight = p.weight("conv1_weight");
  const engine::Variable written[] = {weight.variable()};
  p.test.engine->push({.name = "fail", .overwrites = written}, [](engine::RunContext&) {
    return base::error(base::Errc::internal, "no weight today");
  });
  p.pushed();
  CHECK(mentions(p.executor->outputs()[0].wait(), {"no weight today"}));
  // Nothing was written since; what has failed is tried again.
  const std::uint64_t steps = p.pushed();
  CHECK(mentions(p.executor->outputs()[0].wait(), {"no weight today"}));
  fill(weight, "conv1_weight", -0.1, 0.1);
  p.pushed();
  CHECK(p.output() == good);
  if (kept > 0) CHECK(p.pushed() == steps - 1);  // what had failed ran again each time
}

TEST_CASE("an input of any name costs no memory but its own") {
  Composer c(table());
  Symbol net = c.variable("x");
  for (const char* name : {"conv1", "conv2", "conv3"}) {
    net = c.call("convolution", name, {net},
                 {{"kernel", "(3, 3)"}, {"num_filter", "16"}, {"no_bias", "True"}});
  }
  net = c.finish(net).value();
  tests::TestRuntime test;
  Bindings bindings =
      allocate_bindings(test.runtime, net, {{"x", base::Shape{2, 16, 8, 8}}}).value();
  ExecutorOptions options;
  options.train = false;
  const auto executor = Executor::bind(test.runtime, net, std::move(bindings), options).value();
  CHECK(executor->report().prologue_bytes <= sizeof(float) * (2 * 16 * 8 * 8 + 3 * 16 * 16 * 9));
}

TEST_CASE("the prologue is what prepares weights alone, and no head") {
  Composer c(table());
  const Symbol data = c.variable("data"), weight = c.variable("weight");
  const Symbol moved = c.call("reorder", "moved", {weight});
  const Symbol again = c.call("reorder", "again", {moved});
  const Symbol fed = c.call("reorder", "fed", {data});
  const Symbol squared = c.call("square", "squared", {weight});
  const Symbol sum = c.call("add", "sum", {c.call("add", "two", {again, fed}), squared});
  const Symbol head = c.call("reorder", "head", {weight});
  const Symbol behind = c.call("reorder", "behind", {head});
  const Symbol end = c.call("add", "end", {sum, behind});
  const Graph graph = Symbol::group(std::vector<Symbol>{c.finish(end).value(), head}).graph();
  const std::vector<bool> marks = prologue_nodes(graph, {"weight"});
  std::set<std::string> marked;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i]) marked.insert(graph.nodes[i].name);
  }
  CHECK(marked == std::set<std::string>{"moved", "again"});
  for (const bool mark : prologue_nodes(graph, {})) CHECK_FALSE(mark);
}

TEST_CASE("folded weights are kept in the form that their kernel reads, and in no other") {
  Composer c(table());
  Symbol net = c.call("convolution", "conv", {c.variable("data")},
                      {{"kernel", "(3, 3)"}, {"num_filter", "16"}});
  net = c.finish(c.call("batch_norm", "norm", {net})).value();
  ExecutorOptions options;
  options.train = options.winograd = false;
  Predicting p(net, options);
  constexpr std::size_t kWeights = 16 * 16 * 9 * sizeof(float), kBias = 16 * sizeof(float);
  CHECK(p.executor->report().prologue_bytes == kWeights + kBias);
  const Bytes first = (p.pushed(), p.output());
  const std::uint64_t usual = p.pushed();
  CHECK(p.output() == first);
  // Whatever has changed, both steps run, or the one that there is.
  const std::uint64_t steps = kept_nodes(p) > 0 ? 2 : 1;
  for (const char* name : {"conv_weight", "conv_bias"}) {
    fill(p.weight(name), "new", 0.1, 0.9);
    CHECK(p.pushed() == usual + steps);
    CHECK(p.pushed() == usual);
  }
}

TEST_CASE("a normalisation is folded into weights once per version of what it reads") {
  Composer c(table());
  Symbol net = c.call("convolution", "conv", {c.variable("data")},
                      {{"kernel", "(3, 3)"}, {"num_filter", "16"}});
  net = c.call("batch_norm", "norm", {net}, {{"fix_gamma", "False"}});
  net = c.call("activation", "relu", {net}, {{"act_type", "relu"}});
  net = c.finish(c.call("negate", "end", {net})).value();
  Predicting folded(net);
  ExecutorOptions unfused;
  unfused.fused = unfused.train = false;
  Predicting plain(net, unfused);
  const auto has = [](const Predicting& p, const std::string& op) {
    const auto& nodes = p.executor->report().nodes;
    return std::ranges::any_of(nodes, [&](const NodeReport& node) { return node.op == op; });
  };
  CHECK(has(folded, "batch_norm_fold"));
  CHECK_FALSE(has(folded, "batch_norm_inference"));
  CHECK_FALSE(has(folded, "activation"));
  CHECK(has(plain, "batch_norm_inference"));
  const auto agree = [&] {
    const std::uint64_t pushed = folded.pushed();
    plain.pushed();
    CHECK(distance<float>(plain.output(), folded.output()) <= 1e-5);
    return pushed;
  };
  agree();
  const std::uint64_t usual = agree();
  for (const char* name : {"conv_weight", "conv_bias", "norm_gamma", "norm_moving_mean"}) {
    for (Predicting* each : {&folded, &plain}) {
      const auto& states = each->executor->auxiliary();
      const auto state = states.find(name);
      fill(state == states.end() ? each->weight(name) : state->second, "new", 0.1, 0.9);
    }
    INFO(name);
    CHECK(agree() > usual);
    CHECK(agree() == usual);
  }
}

}  // namespace
}  // namespace troupe::symbol
