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
  std::string address() const override { return ""; }
  link::LinkFigures stats() const override { return figures_; }

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
