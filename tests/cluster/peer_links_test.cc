// SPDX-License-Identifier: Apache-2.0
// Who may have a link to a job's process, one at a time, and what may come over it.
#include "cluster/peer_links.h"

#include "tests/link/link_support.h"

namespace troupe::cluster::test {
using namespace link;
using namespace link::test;
namespace {

using schemas::ActorId;

constexpr ActorId kSelf{Role::parameter_server, 1};
constexpr ActorId kPeer{Role::device_server, 0};

/// Counts what is sent through it.
class CountingLink final : public Link {
 public:
  Status send(Envelope, std::int32_t) override {
    ++sent;
    return {};
  }
  bool has_room() override { return room; }
  void close(std::string) override {}
  void abort(Status reason) override { aborted = reason.text(); }
  LinkEnd peer() const override { return {{}, machine, "", 0}; }
  std::optional<trust::Identity> holder() const override { return {}; }
  std::int64_t holder_until() const override { return kNoEnd; }
  std::string address() const override { return {}; }
  LinkFigures stats() const override { return {}; }
  int sent = 0;
  bool room = true;
  std::string machine;
  std::string aborted;
};

/// Shard 1 of a job of two machines and three shards, to which the other two report.
struct Shard {
  std::shared_ptr<CountingLink> link() const { return std::make_shared<CountingLink>(); }
  void post_to(const ActorId& actor) {
    Envelope envelope;
    envelope.to = actor;
    post_office.post(std::move(envelope));
  }
  actors::PostOffice post_office;
  std::vector<std::string> failures;
  std::vector<ActorId> resumed, lost;
  PeerLinks peers{kSelf,
                  {2, 3, 1},
                  post_office,
                  [this](const ActorId& peer) { resumed.push_back(peer); },
                  [this](const Status& status, const std::optional<ActorId>& peer) {
                    failures.push_back(status.text());
                    if (peer) lost.push_back(*peer);
                  }};
};

TEST_CASE("a parameter server takes those of its job who dial it, and nobody else", "[peer]") {
  Shard shard;
  const auto code = [&](ActorId peer) {
    return shard.peers.accept(peer, shard.link()).status().code();
  };
  CHECK(code({Role::device_server, 0}) == Errc::ok);
  CHECK(code({Role::device_server, 1}) == Errc::ok);
  CHECK(code({Role::parameter_server, 0}) == Errc::ok);
  CHECK(code({Role::parameter_server, 2}) == Errc::ok);
  for (const ActorId stranger :
       {ActorId{Role::device_server, 2}, ActorId{Role::device_server, 4'000'000},
        ActorId{Role::parameter_server, 1}, ActorId{Role::parameter_server, 3},
        ActorId{Role::worker, 0}, ActorId{Role::agent, 0}, ActorId{Role::coordinator, 0}}) {
    INFO(stranger.to_string());
    CHECK(code(stranger) == Errc::permission_denied);
  }
  PeerLinks other(
      {Role::parameter_server, 2}, {2, 3, 1}, shard.post_office, [](const ActorId&) {},
      [](const Status&, auto) {});
  for (const std::uint32_t server : {0, 1}) {
    CHECK(other.accept({Role::parameter_server, server}, shard.link()).status().code() ==
          Errc::permission_denied);
  }
  PeerLinks host(
      {Role::device_server, 0}, {2, 3, 1}, shard.post_office, [](const ActorId&) {},
      [](const Status&, auto) {});
  CHECK(host.accept({Role::device_server, 1}, shard.link()).status().code() ==
        Errc::permission_denied);
  CHECK(shard.failures.empty());
}

TEST_CASE("what a link has no room for waits in order, and a healed link is told", "[peer]") {
  Shard shard;
  const auto link = shard.link();
  const auto handler = shard.peers.accept(kPeer, link);
  REQUIRE(handler.ok());
  link->room = false;
  shard.post_to(kPeer);
  shard.post_to(kPeer);
  CHECK(link->sent == 0);
  link->room = true;
  (*handler)->on_drained();
  CHECK(link->sent == 2);
  CHECK(shard.resumed.empty());
  (*handler)->on_resumed();
  CHECK(shard.resumed == std::vector<ActorId>{kPeer});
  CHECK(shard.failures.empty());
}

TEST_CASE("a peer has one link, nobody else's end takes its place", "[peer]") {
  Shard shard;
  const auto link = shard.link();
  const auto handler = shard.peers.accept(kPeer, link);
  REQUIRE(handler.ok());
  const auto second = shard.link();
  const auto refused = shard.peers.accept(kPeer, second);
  CHECK(refused.status().code() == Errc::already_exists);
  CHECK(refused.status().text() ==
        "[peer] parameter server 1 has a link with device server 0 already");
  shard.post_to(kPeer);
  CHECK(link->sent == 1);
  CHECK(second->sent == 0);

  (*handler)->on_down({});
  shard.post_to(kPeer);
  CHECK(shard.post_office.dropped() == 1);
  REQUIRE(shard.peers.accept(kPeer, second).ok());
  (*handler)->on_down({});  // late: the place is another's by now
  shard.post_to(kPeer);
  CHECK(link->sent == 1);
  CHECK(second->sent == 1);
  CHECK(shard.failures.empty());
}

TEST_CASE("an actor is on its own machine, before the placement is known and after", "[peer]") {
  Shard shard;
  schemas::Placement placement;
  placement.machines = {"a", "b"};
  placement.machine_of_rank = {0, 1};
  placement.machine_of_shard = {0, 1, 1};
  const auto from = [&](const std::string& machine) {
    auto link = shard.link();
    link->machine = machine;
    return link;
  };
  const auto impostor = from("b");
  const auto right = from("b");
  const auto handler = shard.peers.accept(kPeer, impostor);
  REQUIRE(handler.ok());
  REQUIRE(shard.peers.accept({Role::device_server, 1}, right).ok());
  shard.peers.place(placement);
  CHECK(impostor->aborted == "[peer] device server 0 is not on machine 'b'");
  CHECK(right->aborted.empty());
  (*handler)->on_down(base::error(Errc::permission_denied, "{}", impostor->aborted));
  const auto again = shard.peers.accept(kPeer, impostor);
  CHECK(again.status().code() == Errc::permission_denied);
  CHECK(again.status().text() == impostor->aborted);
  CHECK(shard.peers.accept(kPeer, from("a")).ok());
  CHECK(shard.peers.accept({Role::parameter_server, 0}, from("b")).status().code() ==
        Errc::permission_denied);
}

TEST_CASE("a lost peer fails the process, one that breaks the protocol does not", "[peer]") {
  Shard shard;
  const auto down = [&](const Status& reason) {
    const auto handler = shard.peers.accept(kPeer, shard.link());
    REQUIRE(handler.ok());
    (*handler)->on_down(reason);
  };
  down({});
  down(base::error(Errc::data_loss, "wrong bytes"));
  CHECK(shard.failures.empty());
  down(base::error(Errc::unavailable, "cut"));
  down(base::error(Errc::permission_denied, "refused"));
  CHECK(shard.failures ==
        std::vector<std::string>{"lost device server 0: cut", "lost device server 0: refused"});
  CHECK(shard.lost == std::vector<ActorId>{kPeer, kPeer});
}

TEST_CASE("a peer speaks in its own name, and of what processes of a job say to each other",
          "[peer]") {
  Envelope envelope;
  envelope.from = kPeer;
  envelope.to = kSelf;
  envelope.message = schemas::GradientPush{};
  CHECK(check_peer_envelope(kPeer, envelope).ok());
  const auto fault = [&](const char* text) {
    const Status status = check_peer_envelope(kPeer, envelope);
    CHECK(status.code() == Errc::data_loss);
    CHECK(status.text() == text);
  };
  SECTION("of a checkpoint servers tell each other, too") {
    envelope.message = schemas::CheckpointReport{};
    CHECK(check_peer_envelope(kPeer, envelope).ok());
  }
  SECTION("weights for a worker, which has them from its own process") {
    envelope.message = schemas::WeightReply{};
    envelope.to = {Role::worker, 0};
    fault("[peer] device server 0 sends a WeightReply to worker 0");
  }
  SECTION("another device server's push") {
    envelope.from.index = 1;
    fault("[peer] device server 0 sends a GradientPush in the name of device server 1");
  }
  SECTION("the coordinator's end") {
    envelope.from = {Role::coordinator, 0};
    envelope.message = schemas::JobEnd{};
    fault("[peer] device server 0 sends a JobEnd in the name of coordinator");
  }
  SECTION("an end of its own") {
    envelope.message = schemas::JobEnd{};
    fault("[peer] device server 0 sends a JobEnd to parameter server 1");
  }
  SECTION("a placement of its own") {
    envelope.message = schemas::Placement{};
    fault("[peer] device server 0 sends a Placement to parameter server 1");
  }
  SECTION("a cut of its own") {
    envelope.message = schemas::ExtraCut{};
    fault("[peer] device server 0 sends a ExtraCut to parameter server 1");
  }
  SECTION("past this process") {
    envelope.to = {Role::coordinator, 0};
    fault("[peer] device server 0 sends a GradientPush to coordinator");
  }
}

TEST_CASE("a forged envelope is not delivered and ends its link alone", "[peer]") {
  Envelope forged = push_of(0, 0, 100);
  SECTION("a push of another sender") {
    forged.from.index = 1;
  }
  SECTION("the end of the job") {
    forged.from = {Role::coordinator, 0};
    forged.message = schemas::JobEnd{};
    forged.payload = {};
  }
  SECTION("of another run") {
    forged.generation += 1;
  }
  SECTION("of another job") {
    forged.job += "x";
  }
  CountingPool pool;
  actors::PostOffice post_office;
  std::atomic<int> delivered{0};
  std::atomic<int> failures{0};
  post_office.open(server_end().actor, [&](const Envelope&) { ++delivered; });
  PeerLinks peers(
      server_end().actor, {3, 2}, post_office, [](const auto&) {},
      [&](const Status&, auto) { ++failures; });
  LinkSet links(quick_limits(), pool);
  const auto address =
      links.listen("127.0.0.1:0", server_end(), [&](const schemas::Hello& hello, const auto& link) {
        return peers.accept(hello.actor, link);
      });
  REQUIRE(address.ok());
  Client client;
  REQUIRE(client.dial(*address).ok());
  REQUIRE(client.recorder->wait_up());
  REQUIRE(client.link->send(forged).ok());
  CHECK(client.recorder->wait_down().code() != Errc::ok);
  CHECK(delivered == 0);
  CHECK(failures == 0);
  links.stop();
}

}  // namespace
}  // namespace troupe::cluster::test
