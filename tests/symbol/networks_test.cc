// SPDX-License-Identifier: Apache-2.0
// The built-in networks are the ones they are named after: parameters and multiply-adds as
// published, and everything that trains reaches the loss.
#include "symbol/networks/networks.h"

#include <algorithm>
#include <set>

#include "symbol/gradient.h"
#include "symbol/work.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Shape;

Shape batch_of(const Shape& sample, std::int64_t batch) {
  return {batch, sample[0], sample[1], sample[2]};
}

constexpr std::int64_t kPlannedBatch = 64;
constexpr const char* kPlannedNetworks[] = {"alexnet",   "overfeat",     "vgg-a",
                                            "googlenet", "inception-bn", "resnet50"};

struct Published {
  const char* name;
  double giga_multiply_adds, million_parameters;
};

TEST_CASE("networks have the published numbers of parameters and multiply-adds") {
  constexpr Published kAll[] = {
      {"lenet", 0.0023, 0.43},          {"alexnet", 0.714, 61.1},
      {"overfeat", 2.80, 145.9},        {"vgg-a", 7.61, 132.9},
      {"vgg16", 15.47, 138.4},          {"vgg19", 19.63, 143.7},
      {"googlenet", 1.58, 7.0},         {"inception-bn", 2.03, 11.3},
      {"resnet18", 1.81, 11.7},         {"resnet34", 3.66, 21.8},
      {"resnet50", 3.86, 25.6},         {"resnet101", 7.57, 44.5},
      {"resnet152", 11.28, 60.2},       {"resnet50-v1.5", 4.09, 25.6},
      {"resnet101-v1.5", 7.80, 44.5},   {"resnet152-v1.5", 11.51, 60.2},
      {"resnet50-v2", 4.09, 25.5},      {"mobilenet-v2", 0.300, 3.50},
      {"resnet20", 0.0408, 0.272},      {"resnet56", 0.1256, 0.856},
      {"resnet110", 0.2530, 1.73},      {"wide-resnet16-4", 0.395, 2.75},
      {"wide-resnet28-10", 5.25, 36.5},
  };
  for (const Published& network : kAll) {
    INFO(network.name);
    const Symbol net = make_network(table(), network.name).value();
    const Shape sample = find_network(network.name)->sample;
    const NetworkSize size = network_size(net, {{"data", batch_of(sample, 1)}}).value();
    CHECK(size.forward.multiply_adds * 1e-9 == Approx(network.giga_multiply_adds).epsilon(0.01));
    const auto parameters = static_cast<double>(size.parameters);
    CHECK(parameters * 1e-6 == Approx(network.million_parameters).epsilon(0.01));
  }
}

TEST_CASE("every network takes its sample, names each node once and trains all it has") {
  std::set<std::string> seen;
  for (const NetworkInfo& network : networks()) {
    INFO(network.name);
    CHECK(seen.insert(std::string(network.name)).second);
    const Symbol net = make_network(table(), network.name).value();
    CHECK(net.validate().ok());
    const InferredShapes shapes = net.infer_shapes({{"data", batch_of(network.sample, 2)}}).value();
    CHECK(shapes.complete);
    REQUIRE(shapes.outputs.size() == 1);
    CHECK(shapes.outputs[0] == Shape{2, network.classes});
    const auto slopes = gradient(table(), net, net.list_parameters());
    INFO(slopes.status().to_string());
    CHECK(slopes.ok());
    const bool drops = net.to_json().find("Dropout") != std::string::npos;
    CHECK(drops == (network.dropout > 0));
  }
  CHECK(find_network("resnet") == nullptr);
}

TEST_CASE("plans of large networks take hardly more than what lives at once") {
  for (const char* name : kPlannedNetworks) {
    INFO(name);
    tests::TestRuntime test;
    const Symbol net = make_network(table(), name).value();
    const Shape data = batch_of(find_network(name)->sample, kPlannedBatch);
    Bindings bindings = allocate_bindings(test.runtime, net, {{"data", data}}).value();
    for (const std::string& key : net.list_parameters()) bindings.grad_req[key] = GradReq::write;
    const auto executor = Executor::bind(test.runtime, net, std::move(bindings)).value();
    const ExecutorReport& report = executor->report();
    CHECK(report.arena_bytes >= report.live_set_bytes);
    CHECK(report.arena_bytes * 100 <= report.live_set_bytes * 105);
    CHECK(report.predict_bytes * 100 <= report.predict_live_set_bytes * 105);
    CHECK(report.arena_bytes * 2 <= report.unshared_bytes);
  }
}

TEST_CASE("predictions of large networks take a quarter of what operators apart would") {
  ExecutorOptions options;
  options.train = false;
  options.sub_batch = kPlannedBatch;  // the batch at once
  ExecutorOptions apart = options;
  apart.fused = false;
  for (const char* name : kPlannedNetworks) {
    INFO(name);
    const Symbol net = make_network(table(), name).value();
    const Shape data = batch_of(find_network(name)->sample, kPlannedBatch);
    tests::TestRuntime test;
    const auto bind = [&](const ExecutorOptions& how) {
      Bindings bindings = allocate_bindings(test.runtime, net, {{"data", data}}).value();
      return Executor::bind(test.runtime, net, std::move(bindings), how).value();
    };
    CHECK(bind(options)->report().arena_bytes * 4 <= bind(apart)->report().unshared_bytes);
  }
}

TEST_CASE("options change classes, dropout and biases of a network, and nothing else") {
  NetworkOptions options;
  options.classes = 7;
  options.dropout = 0.0;
  options.bias = true;
  const Symbol net = make_network(table(), "vgg-a", options).value();
  const InferredShapes shapes = net.infer_shapes({{"data", {2, 3, 64, 64}}}).value();
  CHECK(shapes.outputs[0] == Shape{2, 7});
  CHECK(net.to_json().find("Dropout") == std::string::npos);
  const Symbol residual = make_network(table(), "resnet18", options).value();
  const Names names = residual.list_arguments();
  CHECK(std::ranges::count(names, "stage1_unit1_conv1_bias") == 1);
  CHECK(mentions(make_network(table(), "lenet", {.dropout = 0.5}).status(),
                 {"lenet", "no dropout", "0.5"}));
}

}  // namespace
}  // namespace troupe::symbol
