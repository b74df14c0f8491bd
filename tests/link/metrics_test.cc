// SPDX-License-Identifier: Apache-2.0
// The traffic of links at /metrics: what one side has sent the other has received, also once the
// links are gone.
#include "link/metrics.h"

#include "tests/link/link_support.h"

namespace troupe::link::test {
namespace {

/// A sample's value in an exposition; -1: it is not there.
double value_of(const monitoring::Metrics& metrics, const std::string& sample) {
  const std::string page = metrics.exposition();
  const std::size_t place = page.find("\n" + sample + " ");
  return place == std::string::npos ? -1 : std::stod(page.substr(place + sample.size() + 1));
}

template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kWait;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

TEST_CASE("bytes sent are bytes received, and outlive their links", "[metrics]") {
  Server server;
  Client client;
  monitoring::Metrics here, there;
  const monitoring::Collection sending = show_links(here, client.links);
  const monitoring::Collection receiving = show_links(there, server.links);
  CHECK(value_of(here, "troupe_net_bytes_total{direction=\"sent\"}") == 0);

  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  for (std::uint32_t i = 0; i < 3; ++i) REQUIRE(client.link->send(push_of(i, 1, 5'000)).ok());
  REQUIRE(server.recorder->wait_envelopes(3));
  CHECK(eventually(
      [&] { return value_of(there, "troupe_net_bytes_total{direction=\"received\"}") > 15'000; }));
  CHECK(eventually([&] { return value_of(there, "troupe_net_peers") == 1; }));

  client.link->close("done");
  REQUIRE(server.recorder->wait_down().ok());
  CHECK(eventually([&] {
    return value_of(there, "troupe_net_peers") == 0 && value_of(here, "troupe_net_peers") == 0;
  }));
  CHECK(value_of(there, "troupe_net_bytes_total{direction=\"received\"}") ==
        value_of(here, "troupe_net_bytes_total{direction=\"sent\"}"));
  CHECK(value_of(there, "troupe_net_messages_total{direction=\"received\"}") >= 3);
  CHECK(value_of(here, "troupe_net_recoveries_total{kind=\"resent\"}") == 0);
  CHECK(value_of(here, "troupe_net_queued_bytes") == 0);
}

}  // namespace
}  // namespace troupe::link::test
