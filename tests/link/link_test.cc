// SPDX-License-Identifier: Apache-2.0
// Links between two sets over loopback: exchange, order, payloads, priorities, closing, adopting.
#include "link/link.h"

#include <sys/socket.h>

#include "tests/link/link_support.h"

namespace troupe::link::test {
namespace {

TEST_CASE("envelopes cross a link both ways with their payloads", "[link]") {
  Server server;
  Client client;
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  REQUIRE(server.recorder->wait_up());
  CHECK(client.link->peer().to_string() == "parameter server 1 (beta)");
  CHECK(server.link->peer().to_string() == "device server 2 (alpha)");

  const Envelope sent = push_of(4, 7, 5'000);
  REQUIRE(client.link->send(sent).ok());
  REQUIRE(server.recorder->wait_envelopes(1));
  const Envelope& got = server.recorder->envelopes[0];
  CHECK(got.job == "job-1");
  CHECK(got.generation == 3);
  CHECK(got.view == 1);
  CHECK(got.from == sent.from);
  CHECK(got.to == sent.to);
  CHECK(step_of(got) == 7);
  CHECK(same_bytes(got.payload, sent.payload));
  CHECK(server.pool.held() == 5'000);

  Envelope reply = push_of(4, 7, 100);
  schemas::WeightReply weights;
  weights.slice = {0, 4};
  weights.version = 8;
  reply.message = weights;
  REQUIRE(server.link->send(reply).ok());
  REQUIRE(client.recorder->wait_envelopes(1));
  CHECK(std::get<schemas::WeightReply>(client.recorder->envelopes[0].message).version == 8);
  CHECK(same_bytes(client.recorder->envelopes[0].payload, reply.payload));
}

TEST_CASE("payloads of any size arrive whole, in frames of at most 1 MiB", "[link]") {
  Server server;
  Client client;
  REQUIRE(client.dial(server.address, 2).ok());
  std::size_t messages = 0;
  for (const std::size_t total : {4'096, 65'536, 1 << 20, 16 << 20, 64 << 20}) {
    const std::size_t piece = std::min<std::size_t>(total, 1 << 20);
    std::vector<Envelope> sent;
    for (std::size_t i = 0; i * piece < total; ++i) {
      sent.push_back(push_of(static_cast<std::uint32_t>(i), messages + i, piece));
      REQUIRE(client.link->send(sent.back()).ok());
    }
    REQUIRE(server.recorder->wait_envelopes(sent.size()));
    for (const Envelope& got : server.recorder->envelopes) {
      CHECK(same_bytes(got.payload, sent[step_of(got) - messages].payload));
    }
    messages += sent.size();
    server.recorder->envelopes.clear();
  }
  CHECK(server.recorder->downs.empty());
  CHECK(server.pool.held() == 0);
}

TEST_CASE("the owner chooses where a payload is read to", "[link]") {
  struct Placer final : LinkHandler {
    Result<base::Buffer> place_payload(const Envelope& envelope, std::size_t bytes,
                                       base::BufferPool&) override {
      const auto slice = schemas::slice_of(envelope.message)->slice;
      return place.slice(slice * 1'000, bytes);
    }
    void on_envelope(Envelope envelope) override { inner->on_envelope(std::move(envelope)); }
    void on_down(const Status& reason) override { inner->on_down(reason); }
    base::Buffer place = base::make_host_buffer(10'000);
    std::shared_ptr<Recorder> inner = std::make_shared<Recorder>();
  };
  CountingPool pool;
  LinkSet links(quick_limits(), pool);
  const auto placer = std::make_shared<Placer>();
  const auto address = links.listen("localhost:0", server_end(), [&](const auto&, const auto&) {
    return Result<std::shared_ptr<LinkHandler>>(placer);
  });
  REQUIRE(address.ok());
  Client client;
  REQUIRE(client.dial(*address).ok());
  const Envelope sent = push_of(3, 1, 777);
  REQUIRE(client.link->send(sent).ok());
  REQUIRE(placer->inner->wait_envelopes(1));
  CHECK(placer->inner->envelopes[0].payload.data() == placer->place.data() + 3'000);
  CHECK(same_bytes(placer->place.slice(3'000, 777), sent.payload));
  CHECK(pool.held() == 0);
}

TEST_CASE("a handler of the control plane takes no payload", "[link]") {
  struct Plain final : ControlHandler {
    void on_envelope(Envelope envelope) override { inner->on_envelope(std::move(envelope)); }
    void on_down(const Status& reason) override { inner->on_down(reason); }
    std::shared_ptr<Recorder> inner = std::make_shared<Recorder>();
  };
  CountingPool pool;
  LinkSet links(quick_limits(), pool);
  const auto plain = std::make_shared<Plain>();
  const auto address = links.listen("localhost:0", server_end(), [&](const auto&, const auto&) {
    return Result<std::shared_ptr<LinkHandler>>(plain);
  });
  REQUIRE(address.ok());
  Client client;
  REQUIRE(client.dial(*address).ok());
  REQUIRE(client.link->send(push_of(3, 1, 0)).ok());
  REQUIRE(plain->inner->wait_envelopes(1));
  REQUIRE(client.link->send(push_of(3, 2, 777)).ok());
  const Status down = plain->inner->wait_down();
  CHECK(down.code() == Errc::data_loss);
  CHECK_THAT(down.text(), Catch::Contains("GradientPush with a payload of 777 bytes"));
  CHECK(pool.held() == 0);
}

TEST_CASE("an envelope that the owner does not allow is neither read nor delivered", "[link]") {
  struct Guard final : LinkHandler {
    Status allow(const Envelope& envelope) override {
      if (envelope.from == worker_end().actor) return {};
      return base::error(Errc::data_loss, "in the name of {}", envelope.from.to_string());
    }
    Result<base::Buffer> place_payload(const Envelope& envelope, std::size_t bytes,
                                       base::BufferPool& pool) override {
      placed += 1;
      return LinkHandler::place_payload(envelope, bytes, pool);
    }
    void on_envelope(Envelope envelope) override { inner->on_envelope(std::move(envelope)); }
    void on_down(const Status& reason) override { inner->on_down(reason); }
    std::atomic<int> placed{0};
    std::shared_ptr<Recorder> inner = std::make_shared<Recorder>();
  };
  CountingPool pool;
  LinkSet links(quick_limits(), pool);
  const auto guard = std::make_shared<Guard>();
  const auto address = links.listen("localhost:0", server_end(), [&](const auto&, const auto&) {
    return Result<std::shared_ptr<LinkHandler>>(guard);
  });
  REQUIRE(address.ok());
  Client client;
  REQUIRE(client.dial(*address).ok());
  REQUIRE(client.link->send(push_of(3, 1, 777)).ok());
  REQUIRE(guard->inner->wait_envelopes(1));
  Envelope forged = push_of(3, 2, GENERATE(std::size_t{0}, std::size_t{777}));
  forged.from.index += 1;
  REQUIRE(client.link->send(forged).ok());
  const Status down = guard->inner->wait_down();
  CHECK(down.code() == Errc::data_loss);
  CHECK_THAT(down.text(), Catch::Contains("in the name of device server 3"));
  CHECK(guard->inner->envelopes.size() == 1);
  CHECK(guard->placed == 1);
}

TEST_CASE("urgent slices go first, messages of one slice keep their order", "[link]") {
  Server server;
  Client client;
  // All is queued while the peer is not there yet, so the order is the queue's alone.
  Plain gate;
  std::string address;
  gate = Plain::listen(address);
  REQUIRE(client.dial(address, 1, 5'000).ok());
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::uint32_t slice = 0; slice < 4; ++slice) {
      REQUIRE(client.link->send(push_of(slice, step, 50), static_cast<std::int32_t>(slice)).ok());
    }
  }
  Plain control = gate.accept();
  REQUIRE(next_frame(control).ok());
  Envelope welcome;
  welcome.message = schemas::HelloReply{};
  control.send(frame_bytes(welcome, 0));
  Plain data = gate.accept();
  REQUIRE(next_frame(data).ok());
  data.send(frame_bytes(welcome, 0));
  std::vector<std::pair<std::uint32_t, std::uint64_t>> order;
  for (int i = 0; i < 12; ++i) {
    const auto frame = next_frame(data);
    REQUIRE(frame.ok());
    order.emplace_back(schemas::slice_of(frame->message)->slice, step_of(*frame));
  }
  std::vector<std::pair<std::uint32_t, std::uint64_t>> expected;
  for (const std::uint32_t slice : {3, 2, 1, 0}) {
    for (std::uint64_t step = 0; step < 3; ++step) expected.emplace_back(slice, step);
  }
  CHECK(order == expected);
}

TEST_CASE("many messages over several lanes keep each slice's order", "[link]") {
  Server server;
  Client client;
  REQUIRE(client.dial(server.address, 3).ok());
  constexpr std::uint32_t kSlices = 17;
  constexpr std::uint64_t kSteps = 120;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      REQUIRE(client.link->send(push_of(slice, step, 64), static_cast<int>(step % 3)).ok());
    }
  }
  REQUIRE(server.recorder->wait_envelopes(kSlices * kSteps));
  std::vector<std::uint64_t> next(kSlices);
  for (const Envelope& got : server.recorder->envelopes) {
    CHECK(step_of(got) == next[schemas::slice_of(got.message)->slice]++);
  }
  // All is acknowledged in the end, and the queue's account is empty.
  for (int i = 0; i < 2'000 && client.link->stats().queued_bytes > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(client.link->stats().queued_bytes == 0);
  CHECK(client.link->stats().frames_resent == 0);
  CHECK(server.link->stats().duplicates == 0);
}

TEST_CASE("close sends what is queued, then both ends go down in good order", "[link]") {
  Server server;
  Client client;
  REQUIRE(client.dial(server.address, 2).ok());
  for (std::uint32_t i = 0; i < 200; ++i) REQUIRE(client.link->send(push_of(i, 0, 10'000)).ok());
  client.link->close("done");
  CHECK_FALSE(client.link->send(push_of(0, 1, 10)).ok());
  CHECK(client.recorder->wait_down().ok());
  CHECK(server.recorder->wait_down().ok());
  CHECK(server.recorder->envelopes.size() == 200);
  CHECK(server.recorder->cuts.empty());
  CHECK(server.link->send(push_of(0, 1, 10)).code() == Errc::cancelled);
}

TEST_CASE("what is too large or the link's own is refused by send", "[link]") {
  Server server;
  Client client;
  REQUIRE(client.dial(server.address).ok());
  CHECK_THAT(client.link->send(push_of(0, 0, (1 << 20) + 1)).text(),
             Catch::Contains("GradientPush with a payload of 1048577 bytes"));
  Envelope ping;
  ping.message = schemas::Ping{};
  CHECK(client.link->send(ping).code() == Errc::invalid_argument);
}

TEST_CASE("a pair of sockets becomes a link that ends with its socket", "[link]") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  CountingPool pool;
  LinkSet parent(quick_limits(), pool);
  const auto heard = std::make_shared<Recorder>();
  const auto link = parent.adopt(fds[0], LinkSet::Greeting::wait, server_end(), heard);
  REQUIRE(link.ok());
  Client child;
  const auto to_parent =
      child.links.adopt(fds[1], LinkSet::Greeting::speak, worker_end(), child.recorder);
  REQUIRE(to_parent.ok());
  REQUIRE(heard->wait_up());
  CHECK((*link)->peer().to_string() == "device server 2 (alpha)");
  const Envelope sent = push_of(1, 2, 300'000);
  REQUIRE((*to_parent)->send(sent).ok());
  REQUIRE(heard->wait_envelopes(1));
  CHECK(same_bytes(heard->envelopes[0].payload, sent.payload));
  REQUIRE((*link)->send(push_of(5, 6, 10)).ok());
  REQUIRE(child.recorder->wait_envelopes(1));

  child.links.stop();
  CHECK(child.recorder->wait_down().code() == Errc::cancelled);
  const Status down = heard->wait_down();
  CHECK(down.code() == Errc::unavailable);
  CHECK_THAT(down.text(), Catch::Contains("lost device server 2 (alpha): connection closed"));
}

TEST_CASE("either end of a pair of sockets may take a job's start to come", "[link]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 200;
  limits.start_ms = 3'600'000;
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  const bool speaker_first = GENERATE(true, false);
  const auto greeting = [](bool speaks) {
    return speaks ? LinkSet::Greeting::speak : LinkSet::Greeting::wait;
  };
  Client early(limits);
  REQUIRE(early.links.adopt(fds[0], greeting(speaker_first), server_end(), early.recorder).ok());
  // A dialed peer that says nothing goes after handshake_ms, so this much time has passed then.
  std::string address;
  const Plain gate = Plain::listen(address);
  Client hasty(limits);
  REQUIRE(hasty.dial(address, 1, 0).ok());
  const Plain mute = gate.accept();
  REQUIRE(next_frame(mute).ok());
  REQUIRE(mute.closed_by_peer());
  Client late(limits);
  REQUIRE(late.links.adopt(fds[1], greeting(!speaker_first), worker_end(), late.recorder).ok());
  CHECK(early.recorder->wait_up());
  CHECK(late.recorder->wait_up());
}

TEST_CASE("a pair's end that acknowledges nothing is late, not closed", "[link]") {
  base::Limits limits = quick_limits();
  limits.ping_ms = 5'000;  // a ping that leaves is progress
  limits.progress_ms = 100;
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  const Plain frozen(fds[1]);
  Client parent(limits);
  const auto link =
      parent.links.adopt(fds[0], LinkSet::Greeting::wait, server_end(), parent.recorder);
  REQUIRE(link.ok());
  REQUIRE(frozen.send(frame_bytes(hello_of(7), 0)));
  REQUIRE(parent.recorder->wait_up());
  REQUIRE((*link)->send(push_of(1, 1, 100)).ok());
  const Status down = parent.recorder->wait_down();
  CHECK(down.code() == Errc::deadline_exceeded);
  CHECK_THAT(down.text(), Catch::Contains("no acknowledgement"));
}

TEST_CASE("links and their set may end in any order", "[link]") {
  std::shared_ptr<Link> survivor;
  {
    Server server;
    Client client;
    REQUIRE(client.dial(server.address).ok());
    REQUIRE(client.recorder->wait_up());
    survivor = client.link;
    client.links.stop();
    CHECK_FALSE(client.dial(server.address).ok());
  }
  CHECK_FALSE(survivor->send(push_of(0, 0, 10)).ok());
  survivor->close("late");
  survivor->abort(Status(Errc::internal, "late"));
}

}  // namespace
}  // namespace troupe::link::test
