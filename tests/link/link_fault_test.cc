// SPDX-License-Identifier: Apache-2.0
// What can go wrong between two ends: cuts, flipped bits, silence, slow readers, dead peers.
#include <netinet/tcp.h>

#include <random>

#include "tests/link/link_support.h"

namespace troupe::link::test {
namespace {

/// Sends `count` pushes through a proxy and checks that each arrives once, in its slice's order.
void exactly_once_through(Proxy& proxy, Server& server, std::size_t count,
                          std::optional<base::Secret> secret = std::nullopt) {
  Client client;
  client.secret = secret;
  REQUIRE(client.dial(proxy.address(), 1, 5'000).ok());
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE(client.link->send(push_of(static_cast<std::uint32_t>(i % 7), i, 20'000)).ok());
  }
  REQUIRE(server.recorder->wait_envelopes(count));
  client.link->close("");
  CHECK(client.recorder->wait_down().to_string() == "ok");
  CHECK(server.recorder->envelopes.size() == count);
  std::vector<std::size_t> last(7);
  for (const Envelope& got : server.recorder->envelopes) {
    const std::size_t step = step_of(got);
    CHECK((step < 7 || last[step % 7] + 7 == step));
    last[step % 7] = step;
    CHECK(same_bytes(got.payload, push_of(0, step, 20'000).payload));
  }
  CHECK(client.recorder->cuts.size() == static_cast<std::size_t>(client.recorder->resumes));
}

TEST_CASE("a connection cut in the middle of frames resumes and loses nothing", "[link]") {
  std::optional<base::Secret> secret;
  if (GENERATE(false, true)) secret = base::random_secret();
  Server server(quick_limits(), secret);
  // Connection 0 is control. Each later one is a data connection that is cut in another frame.
  Proxy proxy(server.address, [](int connection) {
    const bool cut = connection > 0 && connection < 6;
    return Proxy::Blow{cut ? 30'000 + 777 * static_cast<std::size_t>(connection) : ~std::size_t{0}};
  });
  exactly_once_through(proxy, server, 60, secret);
  CHECK(server.recorder->resumes + 0 >= 5);
}

TEST_CASE("cuts at any byte, of any connection, lose nothing", "[link]") {
  std::mt19937_64 random(20'26);
  for (int round = 0; round < 6; ++round) {
    Server server;
    Proxy proxy(server.address, [&random](int connection) {
      const std::size_t after = connection < 9 ? random() % 150'000 : ~std::size_t{0};
      return Proxy::Blow{after};
    });
    Client client;
    REQUIRE(client.dial(proxy.address(), 2, 10'000).ok());
    for (std::uint64_t i = 0; i < 80; ++i) {
      REQUIRE(client.link->send(push_of(static_cast<std::uint32_t>(i % 5), i, 5'000)).ok());
    }
    REQUIRE(server.recorder->wait_envelopes(80));
    std::vector<int> seen(80);
    for (const Envelope& got : server.recorder->envelopes) ++seen[step_of(got)];
    CHECK(seen == std::vector<int>(80, 1));
  }
}

/// The code of the answer to a Hello.
Errc answer_to(const Plain& socket, const Envelope& hello) {
  REQUIRE(socket.send(frame_bytes(hello, 0)));
  const auto reply = next_frame(socket);
  REQUIRE(reply.ok());
  return std::get<schemas::HelloReply>(reply->message).code;
}

TEST_CASE("a link that is cut while it opens comes up with its next connections", "[link]") {
  Server server;
  const Envelope control = hello_of(77, 2);
  Envelope data = control;
  std::get<schemas::Hello>(data.message).lane = 1;
  std::get<schemas::Hello>(data.message).channel = schemas::Channel::data;
  Plain first = Plain::connect(server.address);
  REQUIRE(answer_to(first, control) == Errc::ok);
  SECTION("the accepting end has seen the cut") {
    first.close();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  SECTION("it has not") {}
  const Plain again = Plain::connect(server.address);
  CHECK(answer_to(again, control) == Errc::ok);
  const Plain other = Plain::connect(server.address);
  CHECK(answer_to(other, data) == Errc::ok);
  CHECK(server.recorder->wait_up());
  // A token is one link's: another shape of it is refused.
  const Plain stranger = Plain::connect(server.address);
  CHECK(answer_to(stranger, hello_of(77, 3)) == Errc::already_exists);
}

TEST_CASE("an accepted link that never opens ends in time", "[link]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 100;
  Server server(limits);
  Plain first = Plain::connect(server.address);
  REQUIRE(answer_to(first, hello_of(78, 2)) == Errc::ok);
  first.close();
  CHECK(server.recorder->wait_down().code() == Errc::deadline_exceeded);
}

TEST_CASE("a flipped bit cuts the connection and nothing wrong is delivered", "[link]") {
  Server server;
  Proxy proxy(server.address, [](int connection) {
    const bool flip = connection > 0 && connection < 4;
    return Proxy::Blow{flip ? 45'000 : ~std::size_t{0}, true};
  });
  exactly_once_through(proxy, server, 40);
  CHECK(server.recorder->resumes >= 3);
}

TEST_CASE("a connection that garbles everything takes the link down", "[link]") {
  Server server;
  Proxy proxy(server.address, [](int connection) {
    return Proxy::Blow{connection == 0 ? ~std::size_t{0} : 300, true};
  });
  Client client;
  REQUIRE(client.dial(proxy.address()).ok());
  REQUIRE(client.link->send(push_of(0, 0, 20'000)).ok());
  CHECK(server.recorder->wait_down().code() == Errc::data_loss);
  CHECK_FALSE(client.recorder->wait_down().ok());
  CHECK(server.recorder->envelopes.empty());
}

TEST_CASE("a peer whose process has ended is reported at once and named", "[link]") {
  auto server = std::make_unique<Server>();
  Client client;
  REQUIRE(client.dial(server->address).ok());
  REQUIRE(client.recorder->wait_up());
  const std::string address = server->address;
  server.reset();
  const Status down = client.recorder->wait_down();
  CHECK(down.code() == Errc::unavailable);
  CHECK_THAT(
      down.text(),
      Catch::Contains("device server 2 (alpha) lost parameter server 1 (beta) at " + address));
  CHECK(client.recorder->cuts.size() == 1);
}

TEST_CASE("the accepting end gives a cut link up after its time", "[link]") {
  base::Limits limits = quick_limits();
  limits.silence_dead_ms = 1'000;
  Server server(limits);
  auto client = std::make_unique<Client>(limits);
  REQUIRE(client->dial(server.address).ok());
  REQUIRE(server.recorder->wait_up());
  client.reset();
  const Status down = server.recorder->wait_down();
  CHECK(down.code() == Errc::unavailable);
  CHECK_THAT(down.text(), Catch::Contains("lost device server 2 (alpha)"));
  CHECK(server.recorder->cuts.size() == 1);
}

TEST_CASE("a cut link is dialed again in time, however long pauses may become", "[link]") {
  base::Limits limits = quick_limits();
  limits.retry_first_ms = limits.retry_most_ms = 3'600'000;
  limits.silence_dead_ms = 4'000;
  Server server;
  // The first control connection is cut while it is used, and so are the next two.
  Proxy proxy(server.address, [](int connection) {
    return Proxy::Blow{connection == 0 ? 2'000 : connection < 3 ? 0 : ~std::size_t{0}};
  });
  Client client(limits);
  REQUIRE(client.dial(proxy.address(), 0).ok());
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(client.link->send(push_of(0, i, 5'000)).ok());
  }
  REQUIRE(server.recorder->wait_envelopes(3));
  CHECK(client.recorder->downs.empty());
  CHECK(client.recorder->cuts.size() == 1);
}

TEST_CASE("abort ends a link at once with the given reason", "[link]") {
  Server server;
  Client client;
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(server.recorder->wait_up());
  server.link->abort(Status(Errc::unavailable, "its child was reaped"));
  CHECK(server.recorder->wait_down().text() == "its child was reaped");
  // The other end finds nothing to resume.
  CHECK(client.recorder->wait_down().code() == Errc::not_found);
}

/// Accepts a link by hand and answers both greetings; the peer's later bytes are not read.
struct DeafPeer {
  DeafPeer() { gate = Plain::listen(address); }
  void greet() {
    Envelope welcome;
    welcome.message = schemas::HelloReply{};
    for (Plain* socket : {&control, &data}) {
      *socket = gate.accept();
      REQUIRE(next_frame(*socket).ok());
      REQUIRE(socket->send(frame_bytes(welcome, 0)));
    }
  }
  std::string address;
  Plain gate;
  Plain control;
  Plain data;
};

TEST_CASE("a silent peer is dead after silence_dead_ms, though its sockets are open", "[link]") {
  base::Limits limits = quick_limits();
  limits.ping_ms = 20;
  limits.silence_dead_ms = 200;
  Client client(limits);
  DeafPeer peer;
  REQUIRE(client.dial(peer.address).ok());
  peer.greet();
  REQUIRE(client.recorder->wait_up());
  const Status down = client.recorder->wait_down();
  CHECK(down.code() == Errc::deadline_exceeded);
  CHECK_THAT(down.text(), Catch::Contains("silent for"));
  CHECK(std::holds_alternative<schemas::Ping>(next_frame(peer.control)->message));
}

TEST_CASE("a silent connection is dialed anew before its peer counts as dead", "[link]") {
  base::Limits limits = quick_limits();
  limits.ping_ms = 20;
  limits.progress_ms = 200;
  Client client(limits);
  DeafPeer peer;
  REQUIRE(client.dial(peer.address).ok());
  peer.greet();
  REQUIRE(client.recorder->wait_up());
  Plain again = peer.gate.accept();
  const auto greeting = next_frame(again);
  REQUIRE(greeting.ok());
  CHECK(std::holds_alternative<schemas::Hello>(greeting->message));
  REQUIRE(client.recorder->cuts.size() == 1);
  CHECK_THAT(client.recorder->cuts[0].text(), Catch::Contains("silent for"));
  CHECK(client.recorder->downs.empty());
}

TEST_CASE("a peer that does not read costs the sender a bounded queue", "[link]") {
  base::Limits limits = quick_limits();
  limits.send_queue_bytes_max = 32 << 20;
  Client client(limits);
  DeafPeer peer;
  REQUIRE(client.dial(peer.address).ok());
  peer.greet();
  REQUIRE(client.recorder->wait_up());
  const Envelope push = push_of(1, 1, 1 << 20);
  Status status;
  int accepted = 0;
  for (; status.ok() && accepted < 100; ++accepted) status = client.link->send(push);
  CHECK(status.code() == Errc::resource_exhausted);
  CHECK_THAT(status.text(), Catch::Contains("wait for parameter server 1 (beta)"));
  CHECK(client.link->stats().queued_bytes <= limits.send_queue_bytes_max);
  // No more than the window has left the queue, and control still passes.
  CHECK(client.link->stats().bytes_sent < limits.push_window_bytes + (1 << 20));
  Envelope note;
  note.message = schemas::JobStop{"x"};
  CHECK(client.link->send(note).ok());
  for (;;) {
    const auto frame = next_frame(peer.control);
    REQUIRE(frame.ok());
    if (std::holds_alternative<schemas::JobStop>(frame->message)) break;
  }
}

TEST_CASE("a sender that asks for room is told when there is some, and nothing is refused",
          "[link]") {
  base::Limits limits = quick_limits();
  limits.send_queue_bytes_max = 8 << 20;
  Server server;
  Client client(limits);
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  constexpr std::size_t kPushes = 60;
  std::size_t step = 1;
  server.recorder->keeps = true;  // the queue fills, whoever is faster
  while (client.link->has_room() && step <= kPushes) {
    REQUIRE(client.link->send(push_of(1, step++, 1 << 20)).ok());
  }
  REQUIRE(step <= kPushes);
  server.recorder->let_go();
  int drains = 0;
  while (step <= kPushes) {
    if (client.link->has_room()) {
      REQUIRE(client.link->send(push_of(1, step++, 1 << 20)).ok());
      continue;
    }
    REQUIRE(client.recorder->wait([&] { return client.recorder->drains > drains; }));
    drains = client.recorder->drains;
  }
  REQUIRE(client.recorder->wait([&] { return client.recorder->drains > 0; }));
  REQUIRE(server.recorder->wait_envelopes(kPushes));
  client.link->abort(Status(Errc::cancelled, "enough"));
  CHECK(client.recorder->wait_down().code() == Errc::cancelled);
  CHECK(client.link->has_room());  // who sends hears why it is down
}

TEST_CASE("a peer's credit returns when its envelopes are let go, not when they arrive", "[link]") {
  base::Limits limits = quick_limits();
  limits.push_window_bytes = 4 << 20;
  Server server(limits);
  server.recorder->keeps = true;
  Client client(limits);
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  constexpr std::size_t kPushes = 20;
  for (std::uint64_t step = 1; step <= kPushes; ++step) {
    REQUIRE(client.link->send(push_of(1, step, 1 << 20)).ok());
  }
  // As many as the window lets pass: three, since each has a head.
  REQUIRE(server.recorder->wait_envelopes(3));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(server.recorder->wait([&] { return server.recorder->envelopes.size() == 3; }));
  Envelope note = push_of(1, 0, 0);
  note.message = schemas::Finished{};
  REQUIRE(client.link->send(note).ok());  // other traffic passes
  REQUIRE(server.recorder->wait_envelopes(4));
  server.recorder->let_go();
  REQUIRE(server.recorder->wait_envelopes(kPushes + 1));
  CHECK(server.link->stats().duplicates == 0);
}

TEST_CASE("the last frame of a burst is acknowledged, however late it is let go", "[link]") {
  Server server;
  server.recorder->keeps = true;
  Client client;
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  REQUIRE(client.link->send(push_of(1, 1, 1 << 20)).ok());
  REQUIRE(client.link->send(push_of(1, 2, 1 << 10)).ok());
  REQUIRE(server.recorder->wait_envelopes(2));
  for (std::size_t i = 0; i < 2; ++i) {  // each much later than acknowledgements are
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.recorder->wait([&] {
      server.recorder->envelopes[i].receipt = nullptr;
      return true;
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (client.link->stats().queued_bytes > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(client.link->stats().queued_bytes == 0);
}

TEST_CASE("a lane is whole while its envelopes wait for a slow role", "[link]") {
  base::Limits limits = quick_limits();
  limits.ping_ms = 50;
  limits.progress_ms = 500;
  Server server(limits);
  server.recorder->keeps = true;
  Client client(limits);
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  REQUIRE(client.link->send(push_of(1, 1, 1 << 10)).ok());
  REQUIRE(server.recorder->wait_envelopes(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
  CHECK(client.link->stats().queued_bytes > 0);
  CHECK(client.link->stats().resumes == 0);
  CHECK(client.recorder->wait([&] { return client.recorder->cuts.empty(); }));
}

TEST_CASE("a peer that does not keep to its windows is cut off", "[link]") {
  base::Limits limits = quick_limits();
  Server server(limits);
  server.recorder->keeps = true;
  Plain peer = Plain::connect(server.address);
  REQUIRE(peer.send(frame_bytes(hello_of(77), 0)));
  REQUIRE(next_frame(peer).ok());
  REQUIRE(server.recorder->wait_up());
  // The three windows' worth of envelopes that nobody takes, and more.
  for (std::uint64_t step = 1; step <= 40; ++step) {
    if (!peer.send(frame_bytes(push_of(1, step, 1 << 20), step))) break;
  }
  const Status down = server.recorder->wait_down();
  CHECK(down.code() == Errc::data_loss);
  CHECK_THAT(down.text(), Catch::Contains("device server 2"));
  CHECK_THAT(down.text(), Catch::Contains("nobody has taken yet"));
  CHECK(server.pool.held() <= std::size_t{26} << 20);
}

TEST_CASE("an empty queue takes a message that is larger than the queue", "[link]") {
  base::Limits limits = quick_limits();
  limits.send_queue_bytes_max = 8 << 20;
  limits.payload_bytes_max = 16 << 20;
  Server server(limits);
  Client client(limits);
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  CHECK(client.link->has_room());
  CHECK(client.link->send(push_of(1, 1, 12 << 20)).ok());
  CHECK(server.recorder->wait_envelopes(1));
}

TEST_CASE("unacknowledged bytes without progress end in a new connection", "[link]") {
  base::Limits limits = quick_limits();
  limits.progress_ms = 100;
  Client client(limits);
  DeafPeer peer;
  REQUIRE(client.dial(peer.address).ok());
  peer.greet();
  REQUIRE(client.link->send(push_of(1, 1, 100)).ok());
  const Plain again = peer.gate.accept();
  REQUIRE(again.valid());
  const auto hello = next_frame(again);
  REQUIRE(hello.ok());
  CHECK(std::get<schemas::Hello>(hello->message).resume);
  CHECK(std::get<schemas::Hello>(hello->message).lane == 1);
  CHECK_THAT(client.recorder->cuts.at(0).text(), Catch::Contains("no acknowledgement"));
}

/// Options of all connected TCP sockets of this process.
std::vector<int> of_connections(int level, int option) {
  std::vector<int> values;
  for (int fd = 0; fd < 1'024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family != AF_INET) continue;
    int value = 0;
    size = sizeof value;
    if (::getsockopt(fd, level, option, &value, &size) == 0) values.push_back(value);
  }
  return values;
}

TEST_CASE("the system keeps connections alive that carry nothing", "[link]") {
  const auto lanes = GENERATE(0U, 1U, 2U, 3U, 4U);
  base::Limits limits = quick_limits();
  limits.silence_dead_ms = 12'345;
  const std::size_t before = of_connections(SOL_SOCKET, SO_KEEPALIVE).size();
  REQUIRE(before == 0);
  Server server(limits);
  Client client(limits);
  REQUIRE(client.dial(server.address, lanes).ok());
  REQUIRE(client.recorder->wait_up());
  REQUIRE(server.recorder->wait_up());
  const std::size_t both_ends = 2 * (1 + lanes);
  CHECK(of_connections(SOL_SOCKET, SO_KEEPALIVE) == std::vector<int>(both_ends, 1));
  CHECK(of_connections(IPPROTO_TCP, TCP_KEEPIDLE) == std::vector<int>(both_ends, 6));
  CHECK(of_connections(IPPROTO_TCP, TCP_USER_TIMEOUT) == std::vector<int>(both_ends, 12'345));
}

TEST_CASE("idle links stay up by their pings", "[link]") {
  base::Limits limits = quick_limits();
  limits.ping_ms = 20;
  limits.silence_dead_ms = 2'000;
  Server server(limits);
  Client client(limits);
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(server.recorder->wait_up());
  for (int i = 0; i < 2'000 && client.link->stats().frames_received < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(client.link->stats().frames_received >= 20);
  CHECK(client.recorder->downs.empty());
}

}  // namespace
}  // namespace troupe::link::test
