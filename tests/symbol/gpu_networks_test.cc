// SPDX-License-Identifier: Apache-2.0
// Built-in networks on the first GPU: the values of the host's kernels, and the same bits every
// time, with one stream or several. Not run where there is no GPU.
#include <algorithm>
#include <cmath>

#include "gpu/inventory.h"
#include "gpu/stream.h"
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

}  // namespace
}  // namespace troupe::symbol
