// SPDX-License-Identifier: Apache-2.0
// Built-in networks on the first GPU: the values of the host's kernels, and the same bits every
// time, with one stream or several. Not run where there is no GPU.
#include <algorithm>
#include <cmath>

#include "gpu/inventory.h"
#include "gpu/stream.h"
#include "symbol/autotune.h"
#include "symbol/networks/networks.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

constexpr base::Device kFirstGpu{base::DeviceKind::cuda, 0};

/// Streams of the first GPU, and a network bound there.
struct OnGpu {
  OnGpu(const Symbol& net, const base::Shape& data, std::size_t count, base::DType dtype)
      : streams(make_streams(count)),
        bound(net, data, {.device = kFirstGpu}, true, {.streams = pointers(streams)}, dtype) {}

  using Streams = std::vector<std::unique_ptr<base::Stream>>;
  static Streams make_streams(std::size_t count) {
    Streams made;
    for (std::size_t i = 0; i < count; ++i) {
      made.push_back(gpu::make_stream(kFirstGpu, gpu::StreamPriority::normal).value());
    }
    return made;
  }
  static std::vector<base::Stream*> pointers(const Streams& streams) {
    std::vector<base::Stream*> all;
    for (const auto& stream : streams) all.push_back(stream.get());
    return all;
  }

  Streams streams;
  Bound bound;
};

struct Norms {
  double difference = 0, expected = 0;
};
/// ||a - b|| and ||b|| of two tensors of f32.
Norms norms(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, expected = 0;
  for (std::size_t i = 0; i < a.size() / sizeof(float); ++i) {
    float x, y;
    std::memcpy(&x, a.data() + i * sizeof(float), sizeof(float));
    std::memcpy(&y, b.data() + i * sizeof(float), sizeof(float));
    difference += (double(x) - double(y)) * (double(x) - double(y));
    expected += double(y) * double(y);
  }
  return {std::isnan(difference) ? 1e30 : std::sqrt(difference), std::sqrt(expected)};
}

TEST_CASE("networks on a GPU have the host's values, and one set of bits", "[gpu][device]") {
  if (!gpu::check_device(kFirstGpu).ok()) {
    WARN("skipped: " << gpu::check_device(kFirstGpu).text());
    return;
  }
  // Deeper ones of a kind have the same layers.
  for (const char* name :
       {"mlp", "lenet", "tiny-bn", "resnet20", "alexnet", "vgg-a", "googlenet", "inception-bn",
        "resnet18", "resnet50", "resnet50-v1.5", "resnet50-v2", "mobilenet-v2"}) {
    const NetworkInfo& network = *find_network(name);
    const Symbol net = make_network(table(), network.name).value();
    // Small images keep the host's share short; the last planes have several places each, so that
    // batch normalisation has something to measure.
    constexpr std::int64_t kSide = 96;
    const base::Shape data{4, network.sample[0], std::min(kSide, network.sample[1]),
                           std::min(kSide, network.sample[2])};
    INFO(network.name << " on " << data.to_string());
    const Results expected = Bound(net, data, {}, true, {.threads = 4}).step(5);
    OnGpu alone(net, data, 1, base::DType::f32), several(net, data, 3, base::DType::f32);
    const Results first = alone.bound.step(5);
    CHECK((alone.bound.step(5) == first));
    CHECK((several.bound.step(5) == first));
    REQUIRE(first.size() == expected.size());
    double largest = 0, gradients = 0;
    for (const auto& [key, bytes] : first) {
      if (!key.starts_with("output"))
        gradients += std::pow(norms(bytes, expected.at(key)).expected, 2);
    }
    for (const auto& [key, bytes] : first) {
      INFO(key);
      const Norms n = norms(bytes, expected.at(key));
      if (key.starts_with("output")) {
        CHECK(n.difference <= 1e-3 * n.expected);
        continue;
      }
      // A ReLU or a maximum whose input is a tie but for rounding may choose otherwise; some
      // gradients are zero by mathematics.
      const double zero = 1e-6 * std::sqrt(gradients);
      CHECK(n.difference <= std::max(5e-2 * n.expected, zero));
      if (n.expected > zero) largest = std::max(largest, n.difference / n.expected);
    }
    fmt::print("{} on {}: largest distance of a gradient {:.2g}\n", network.name, data.to_string(),
               largest);
  }
}

/// Kernels that were measured for the network on the first GPU.
std::map<std::string, KernelChoice> tuned_on_gpu(const Symbol& net, const base::Shape& data) {
  const OnGpu::Streams streams = OnGpu::make_streams(1);
  tests::TestRuntime test(true, {.streams = OnGpu::pointers(streams)});
  Autotuner tuner(measure_on(test.runtime), test.clock, 60.0);
  ExecutorOptions options{.device = kFirstGpu, .tuner = &tuner};
  Bindings bindings =
      allocate_bindings(test.runtime, net, {{"data", data}}, base::DType::f32, kFirstGpu).value();
  for (const std::string& name : net.list_parameters()) bindings.grad_req[name] = GradReq::write;
  REQUIRE(Executor::bind(test.runtime, net, std::move(bindings), options).ok());
  return tuner.choices();
}

TEST_CASE("kernels that were measured on a GPU compute what the rule's do", "[gpu][device]") {
  if (!gpu::check_device(kFirstGpu).ok()) {
    WARN("skipped: " << gpu::check_device(kFirstGpu).text());
    return;
  }
  const Symbol net = make_network(table(), "lenet").value();
  const base::Shape data{64, 1, 28, 28};
  const auto choices = tuned_on_gpu(net, data);
  for (const auto& [call, choice] : choices) {
    std::string seconds;
    for (const auto& [kernel, took] : choice.seconds) {
      seconds += fmt::format(" {} {:.1f}", kernel, took * 1e6);
    }
    WARN(call << ": " << choice.kernel << ", microseconds:" << seconds);
  }
  const auto kernels = std::make_shared<const KernelChoices>(KernelChoices{"tuned", "", choices});
  const OnGpu::Streams streams = OnGpu::make_streams(1);
  const ExecutorOptions options{.device = kFirstGpu, .kernels = kernels};
  Bound chosen(net, data, options, true, {.streams = OnGpu::pointers(streams)}, base::DType::f32);
  OnGpu by_rule(net, data, 1, base::DType::f32);
  const Results first = chosen.step(5), expected = by_rule.bound.step(5);
  CHECK((chosen.step(5) == first));
  REQUIRE(first.size() == expected.size());
  for (const auto& [name, bytes] : expected) {
    INFO(name);
    const Norms distance = norms(first.at(name), bytes);
    CHECK(distance.difference <= 1e-4 * distance.expected);
  }
}

}  // namespace
}  // namespace troupe::symbol
