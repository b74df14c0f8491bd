// SPDX-License-Identifier: Apache-2.0
// A step through a built-in network of the values that networks.py wrote:
//   torch_networks NETWORK f64|f32|winograd INPUTS RESULTS
// f64: reference kernels; f32: the fast kernels, winograd: these with convolutions in Winograd's
// form. RESULTS (safetensors) gets prediction, what the network as bound for predictions gives
// before the step, probabilities and NAME.grad of each parameter; of f32 and
// winograd value.LAYER, what a ReLU or clipping took or gave, and slope.LAYER, 1 where it lets
// gradients pass and else 0.
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <span>
#include <string>

#include "ndarray/safetensors.h"
#include "symbol/executor.h"
#include "symbol/networks/networks.h"
#include "tests/support/layout_offset.h"
#include "tests/support/must.h"
#include "tests/support/test_runtime.h"

namespace troupe {
namespace {

using ndarray::NDArray;
using tests::must;

/// How the network runs.
struct How {
  base::DType dtype = base::DType::f32;
  bool winograd = false;
};

void load(const NDArray& array, const ndarray::Safetensors& file, const std::string& name) {
  const ndarray::RawTensor* tensor = file.find(name);
  if (tensor == nullptr) must(base::error(base::Errc::not_found, "no tensor {}", name));
  if (array.dtype() == base::DType::f64) return must(array.write(tensor->bytes));
  const auto* values = reinterpret_cast<const double*>(tensor->bytes.data());
  const std::vector<float> single(values, values + tensor->bytes.size() / sizeof(double));
  must(array.write(std::as_bytes(std::span(single))));
}

/// A value inside the network, dense.
struct Inner {
  base::Shape shape;
  std::vector<float> elements;
  std::vector<float> slopes;  ///< of the ReLU or clipping that takes it
};
using Values = std::map<std::string, Inner>;

Inner copied(const base::TensorView& view) {
  Inner inner{view.shape, std::vector<float>(static_cast<std::size_t>(view.shape.elements()))};
  const auto* from = static_cast<const float*>(view.data);
  for (std::size_t i = 0; i < inner.elements.size(); ++i) {
    inner.elements[i] = from[tests::offset_in(view.layout, view.shape, std::int64_t(i))];
  }
  return inner;
}

bool has_kinks(const symbol::GraphNode& node) {
  return !node.is_variable() && (node.is_relu() || node.op->name == "clip");
}

/// Names of what each ReLU and clipping takes, and of a sum's parts where it takes a sum.
std::set<std::string> deciding(const symbol::Graph& graph) {
  std::set<std::string> names;
  for (const symbol::GraphNode& node : graph.nodes) {
    if (!has_kinks(node)) continue;
    names.insert(graph.value_name(node.input(0)));
    for (const symbol::Value part : graph.node(node.input(0)).inputs) {
      names.insert(graph.value_name(part));
    }
  }
  return names;
}

symbol::Bindings loaded(ndarray::Runtime& runtime, const symbol::Symbol& net,
                        const ndarray::Safetensors& file, const How& how) {
  symbol::Bindings bindings = must(
      symbol::allocate_bindings(runtime, net, {{"data", file.find("data")->shape}}, how.dtype));
  for (const auto& [name, array] : bindings.arguments) {
    load(array, file, name == "softmax_label" ? "label" : name);
  }
  for (const auto& [name, array] : bindings.auxiliary) load(array, file, name);
  return bindings;
}

symbol::ExecutorOptions options_of(const How& how, bool train) {
  symbol::ExecutorOptions options;
  options.reference_only = how.dtype == base::DType::f64;
  options.train = train;
  options.predict = !train;
  options.winograd = how.winograd;
  return options;
}

std::unique_ptr<symbol::Executor> bind_training(ndarray::Runtime& runtime,
                                                const symbol::Symbol& net,
                                                const ndarray::Safetensors& file, const How& how,
                                                Values& values) {
  symbol::Bindings bindings = loaded(runtime, net, file, how);
  for (const std::string& name : net.list_parameters()) {
    bindings.grad_req[name] = symbol::GradReq::write;
  }
  symbol::ExecutorOptions options = options_of(how, true);
  if (how.dtype == base::DType::f32) {
    // A name once: what the backward pass computes again has its own.
    options.monitor = [&values, wanted = deciding(net.graph())](const std::string& name,
                                                                const base::TensorView& value) {
      if (wanted.count(name) > 0) values.emplace(name, copied(value));
    };
  }
  return must(symbol::Executor::bind(runtime, net, std::move(bindings), options));
}

Inner& must_find(Values& values, const std::string& name, const symbol::GraphNode& user) {
  const auto value = values.find(name);
  if (value == values.end()) must(base::error(base::Errc::not_found, "no value of {}", user.name));
  return value->second;
}

/// What a ReLU took. Where it, and maybe a sum before it, runs with the operator before that, what
/// it gave: of a sum's inputs the later one took the sum in (fuse.h).
Inner& relu_value(const symbol::Graph& graph, const symbol::GraphNode& relu, Values& values) {
  symbol::Value taken = relu.input(0);
  if (values.count(graph.value_name(taken)) == 0 && graph.node(taken).inputs.size() == 2) {
    const std::vector<symbol::Value>& parts = graph.node(taken).inputs;
    taken = parts[0].node > parts[1].node ? parts[0] : parts[1];
  }
  return must_find(values, graph.value_name(taken), relu);
}

/// Adds value.LAYER and slope.LAYER for each ReLU and clipping of the symbol. The value is what it
/// took; of a ReLU what it gave, where it runs with the operator before it.
void add_decisions(const symbol::Symbol& net, Values& values,
                   std::vector<ndarray::RawTensor>& results) {
  const symbol::Graph graph = net.graph();
  for (const symbol::GraphNode& node : graph.nodes) {
    if (!has_kinks(node)) continue;
    const bool relu = node.is_relu();
    Inner& inner = relu ? relu_value(graph, node, values)
                        : must_find(values, graph.value_name(node.input(0)), node);
    inner.slopes.resize(inner.elements.size());
    const double low = relu ? 0.0 : node.params.real("a_min");
    const double high = relu ? HUGE_VAL : node.params.real("a_max");
    for (std::size_t i = 0; i < inner.slopes.size(); ++i) {
      const float x = inner.elements[i];
      inner.slopes[i] = x > low || (x == low && !relu) ? x <= high : false;
    }
    const auto add = [&](const char* what, const std::vector<float>& elements) {
      results.push_back(
          {what + node.name, base::DType::f32, inner.shape, std::as_bytes(std::span(elements))});
    };
    add("value.", inner.elements);
    add("slope.", inner.slopes);
  }
}

void run(const std::string& network, const How& how, const char* inputs, const char* path) {
  const ndarray::Safetensors file = must(ndarray::read_safetensors(inputs));
  Values values;  // outlives the engine
  tests::TestRuntime setup;
  const auto net = must(symbol::make_network(tests::test_operators(), network, {.dropout = 0.0}));
  const auto predictor = must(symbol::Executor::bind(
      setup.runtime, net, loaded(setup.runtime, net, file, how), options_of(how, false)));
  must(predictor->forward(false));
  const auto executor = bind_training(setup.runtime, net, file, how, values);
  must(executor->forward(true));
  must(executor->backward());
  std::vector<ndarray::RawTensor> results;
  const auto add = [&results](const std::string& name, const NDArray& array) {
    must(array.wait());
    const base::TensorView view = array.view();
    results.push_back({name,
                       view.dtype,
                       view.shape,
                       {static_cast<const std::byte*>(view.data), std::size_t(view.bytes())}});
  };
  add("prediction", predictor->outputs().front());
  add("probabilities", executor->outputs().front());
  for (const auto& [name, gradient] : executor->gradients()) add(name + ".grad", gradient);
  if (how.dtype == base::DType::f32) add_decisions(net, values, results);
  must(ndarray::write_safetensors(path, results));
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  const std::map<std::string, troupe::How> hows = {{"f64", {troupe::base::DType::f64, false}},
                                                   {"f32", {troupe::base::DType::f32, false}},
                                                   {"winograd", {troupe::base::DType::f32, true}}};
  const auto how = argc == 5 ? hows.find(argv[2]) : hows.end();
  if (how == hows.end()) {
    std::fprintf(stderr, "usage: torch_networks NETWORK f64|f32|winograd INPUTS RESULTS\n");
    return 2;
  }
  troupe::run(argv[1], how->second, argv[3], argv[4]);
}
