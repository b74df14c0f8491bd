// SPDX-License-Identifier: Apache-2.0
// Every built-in network on the late test device: its work runs some time after it was issued, in
// one stream or several, and ends in the bits of the lanes' own threads.
#include "symbol/networks/networks.h"
#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

/// Two images, as small as the network takes them.
base::Shape two_small_images(const NetworkInfo& network, const Symbol& net) {
  constexpr std::int64_t kStep = 32;
  for (std::int64_t side = kStep; side < network.sample[1]; side += kStep) {
    const base::Shape data{2, network.sample[0], side, side};
    const auto shapes = net.infer_shapes({{"data", data}});
    if (shapes.ok() && shapes->complete) return data;
  }
  return {2, network.sample[0], network.sample[1], network.sample[2]};
}

TEST_CASE("every network ends in the same bits on a device whose work comes late", "[late]") {
  const base::Device device{base::DeviceKind::delayed, 0};
  for (const NetworkInfo& network : networks()) {
    const Symbol net = make_network(table(), network.name).value();
    const base::Shape data = two_small_images(network, net);
    INFO(network.name << " on " << data.to_string());
    const Results expected = Bound(net, data).step(5);
    REQUIRE(expected.size() > 2);
    for (const std::size_t streams : {1U, 3U}) {
      std::vector<std::unique_ptr<tests::DelayedStream>> late;
      engine::EngineOptions engine;
      for (std::size_t i = 0; i < streams; ++i) {
        late.push_back(
            std::make_unique<tests::DelayedStream>(tests::DelayedStreamOptions{.device = device}));
        engine.streams.push_back(late.back().get());
      }
      ExecutorOptions options;
      options.device = device;
      Bound bound(net, data, options, true, engine);
      CHECK((bound.step(5) == expected));
      CHECK((bound.step(5) == expected));
    }
  }
}

}  // namespace
}  // namespace troupe::symbol
