// SPDX-License-Identifier: Apache-2.0
// Who reads no answers loses its link; who has much to read because it works does not.
#include "cluster/linked_peers.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

/// A link with so much in its queue.
class FullLink final : public link::Link {
 public:
  explicit FullLink(std::uint64_t bytes) { figures_.queued_bytes = bytes; }
  base::Status send(schemas::Envelope, std::int32_t) override { return {}; }
  bool has_room() override { return true; }
  void close(std::string) override {}
  void abort(base::Status) override {}
  link::LinkEnd peer() const override { return {}; }
  std::optional<trust::Identity> holder() const override { return std::nullopt; }
  std::int64_t holder_until() const override { return until; }
  std::string address() const override { return ""; }
  link::LinkFigures stats() const override { return figures_; }
  std::int64_t until = link::kNoEnd;

 private:
  link::LinkFigures figures_;
};

std::shared_ptr<link::Link> link_with(std::uint64_t bytes) {
  return std::make_shared<FullLink>(bytes);
}

TEST_CASE("peers are found until they are gone, agents too", "[linked_peers]") {
  LinkedPeers peers;
  const auto link = link_with(0);
  const auto peer = peers.add(link);
  CHECK(peers.add(link_with(0)) != peer);
  CHECK(peers.find(peer) == link);
  peers.note_agent(peer);
  CHECK(peers.find(peer) == link);
  peers.remove(peer);
  CHECK(peers.find(peer) == nullptr);
  peers.note_agent(peer);  // it has gone meanwhile
  CHECK(peers.find(peer) == nullptr);
}

TEST_CASE("whose certificate has ended is told until it holds again", "[linked_peers]") {
  LinkedPeers peers;
  const auto link = std::make_shared<FullLink>(0);
  const auto brief = peers.add(link);
  peers.add(link_with(0));
  CHECK(peers.judge(4'000'000'000).empty());
  link->until = 1'700'000'000;
  CHECK(peers.judge(1'699'999'999).empty());
  if (GENERATE(true, false)) peers.note_agent(brief);
  for (int look = 0; look < 2; ++look) {
    const auto judged = peers.judge(1'700'000'000);
    REQUIRE(judged.size() == 1);
    CHECK(judged[0].peer == brief);
    CHECK(judged[0].ended.code() == base::Errc::permission_denied);
    CHECK(judged[0].ended.text() == "its certificate was valid until 2023-11-14T22:13:20Z");
  }
  link->until = 1'800'000'000;  // it has dialed anew
  const auto judged = peers.judge(1'700'000'000);
  REQUIRE(judged.size() == 1);
  CHECK(judged[0].ended.ok());
  CHECK(peers.judge(1'700'000'000).empty());
  CHECK(peers.judge(1'800'000'000).size() == 1);
  peers.remove(brief);
  CHECK(peers.judge(1'900'000'000).empty());
}

TEST_CASE("a person that reads nothing is deaf, alone or as the worst of many", "[linked_peers]") {
  LinkedPeers peers;
  const auto little = peers.add(link_with(10));
  const auto much = peers.add(link_with(60));
  const auto most = peers.add(link_with(100));
  CHECK(peers.deaf(little, 100, 170) == nullptr);
  CHECK(peers.deaf(most, 99, 1'000) == peers.find(most));
  CHECK(peers.deaf(much, 99, 1'000) == nullptr);
  CHECK(peers.deaf(little, 100, 169) == peers.find(most));
}

TEST_CASE("what waits for an agent is nobody's unread answers, unless it asks", "[linked_peers]") {
  LinkedPeers peers;
  const auto person = peers.add(link_with(50));
  const auto agent = peers.add(link_with(1'000));
  CHECK(peers.deaf(person, 100, 500) == peers.find(agent));  // so far it is anybody
  peers.note_agent(agent);
  CHECK(peers.deaf(person, 100, 500) == nullptr);
  CHECK(peers.deaf(person, 100, 49) == peers.find(person));
  CHECK(peers.deaf(agent, 2'000, 500) == nullptr);
  CHECK(peers.deaf(agent, 999, 500) == peers.find(agent));
}

}  // namespace
}  // namespace troupe::cluster
