// SPDX-License-Identifier: Apache-2.0
// Links under TLS: the same promises, only between those whose certificates fit what they say.
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "tests/link/carrier_support.h"
#include "tests/link/link_support.h"

namespace troupe::link::test {
namespace {

const LinkEnd kCoordinator{{Role::coordinator, 0}, "", "", 0};

LinkEnd agent_end(const std::string& name) {
  return {{Role::agent, 0}, name, "", 0};
}

trust::Credentials process_of(const Cluster& cluster, const std::string& agent,
                              const LinkEnd& end) {
  const trust::Credentials above = cluster.make(trust::Role::agent, agent);
  const auto who = trust::process_identity(above.info.identity, end.job, end.generation);
  return trust::delegate(above, who, kLong).value();
}

/// A coordinator's port, and an agent that dials it with what it is given.
struct Meeting {
  Meeting(std::shared_ptr<const Tls> at_port, std::shared_ptr<const Tls> of_agent,
          const std::string& name)
      : coordinator(quick_limits(), std::nullopt, std::move(at_port), kCoordinator),
        agent(quick_limits(), std::move(of_agent)) {
    agent.self = agent_end(name);
    agent.peer = kCoordinator;
  }
  /// Empty where the link came up; else why not.
  std::string dial() {
    REQUIRE(agent.dial(coordinator.address, 0).ok());
    return agent.recorder->wait_up() ? "" : agent.recorder->wait_down().text();
  }
  Server coordinator;
  Client agent;
};

TEST_CASE("payloads cross links under TLS over several connections", "[tls]") {
  const Cluster cluster;
  const auto secret = base::random_secret();
  Server server(quick_limits(), secret, tls_of(process_of(cluster, "beta", server_end())));
  Client client(quick_limits(), tls_of(process_of(cluster, "alpha", worker_end())));
  client.secret = secret;
  REQUIRE(client.dial(server.address, 2).ok());
  REQUIRE(client.recorder->wait_up());
  std::vector<Envelope> sent;
  for (std::uint32_t i = 0; i < 40; ++i) {
    sent.push_back(push_of(i, i, (i % 5 + 1) * 200'001));
    REQUIRE(client.link->send(sent.back()).ok());
  }
  REQUIRE(server.recorder->wait_envelopes(sent.size()));
  for (const Envelope& got : server.recorder->envelopes) {
    CHECK(same_bytes(got.payload, sent[step_of(got)].payload));
  }
  client.link->close("done");
  CHECK(client.recorder->wait_down().ok());
  CHECK(server.recorder->wait_down().ok());
}

/// One end of a connection under TLS that is driven by hand.
class ByHand {
 public:
  /// Dials the port at `address`, HOST:PORT.
  static std::unique_ptr<ByHand> dial(const std::string& address, std::shared_ptr<const Tls> tls) {
    auto made = std::make_unique<ByHand>();
    asio::ip::tcp::socket socket(made->io_);
    const auto target = base::parse_address(address).value();
    socket.connect({asio::ip::make_address(target.host), target.port});
    made->begin(std::move(socket), std::move(tls), TlsEnd::dialing);
    return made;
  }
  ~ByHand() {
    if (carrier_ != nullptr) carrier_->close();
    io_.poll();
  }

  /// A port of this end's own, until accept().
  std::string listen() {
    acceptor_.emplace(io_, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    return "127.0.0.1:" + std::to_string(acceptor_->local_endpoint().port());
  }
  /// Waits for a peer that has begun its handshake, and answers nothing yet.
  void accept() {
    waiting_.emplace(acceptor_->accept());
    waiting_->wait(asio::socket_base::wait_read);
  }
  void greet(std::shared_ptr<const Tls> tls) {
    begin(*std::move(waiting_), std::move(tls), TlsEnd::accepting);
  }

  void until(const std::function<bool()>& done) {
    for (int i = 0; i < 400 && !done(); ++i) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(50));
    }
    REQUIRE(done());
  }
  void wait_bytes(std::size_t bytes) {
    until([&] { return text().size() >= bytes; });
  }
  /// The header of the first frame that came, and where the next one begins.
  std::pair<Envelope, std::size_t> first_frame() {
    wait_bytes(kFrameHeadBytes + 1);
    std::uint32_t header_bytes = 0;
    std::memcpy(&header_bytes, text().data() + 48, sizeof header_bytes);
    wait_bytes(kFrameHeadBytes + header_bytes);
    const auto header = std::span(text()).subspan(kFrameHeadBytes, header_bytes);
    return {schemas::decode_envelope(header).value(), kFrameHeadBytes + header_bytes};
  }
  void send(const Envelope& envelope) {
    sent_ = frame_bytes(envelope, 0);
    carrier_->send(
        {std::as_bytes(std::span(sent_))}, [] { return true; }, [](const Status&) {});
  }
  bool greeted() const { return carrier_->peer() != nullptr; }
  bool ended() const { return reader_->end.has_value(); }
  const std::vector<std::byte>& text() const { return reader_->text; }

 private:
  void begin(asio::ip::tcp::socket socket, std::shared_ptr<const Tls> tls, TlsEnd end) {
    carrier_ = make_tls_carrier(Socket(std::move(socket)), std::move(tls), end);
    reader_.emplace(carrier_, 0, 65'536);
    reader_->start();
  }

  asio::io_context io_;
  std::optional<asio::ip::tcp::acceptor> acceptor_;
  std::optional<asio::ip::tcp::socket> waiting_;
  std::shared_ptr<Carrier> carrier_;
  std::optional<Reader> reader_;
  std::string sent_;
};

Envelope yes_to(const LinkEnd& end) {
  Envelope yes;
  yes.job = end.job;
  yes.generation = end.generation;
  yes.message = schemas::HelloReply{};
  return yes;
}

/// What a dialing link of worker_end() sends to an end that says yes to its Hello: the bytes of
/// `push`, and more.
std::string bytes_of_push(const Cluster& cluster, const Envelope& push) {
  Client client(quick_limits(), tls_of(process_of(cluster, "alpha", worker_end())));
  ByHand port;
  REQUIRE(client.dial(port.listen(), 0).ok());
  port.accept();
  port.greet(tls_of(process_of(cluster, "beta", server_end())));
  const std::size_t begin = port.first_frame().second;
  port.send(yes_to(server_end()));
  REQUIRE(client.link->send(push).ok());
  port.wait_bytes(begin + kFrameHeadBytes + push.payload.size());
  const auto* text = reinterpret_cast<const char*>(port.text().data());
  return {text + begin, text + port.text().size()};
}

TEST_CASE("under TLS a frame says no checksum of its payload", "[tls]") {
  const Cluster cluster;
  const Envelope push = push_of(1, 7, 1'000);
  const std::string frame = bytes_of_push(cluster, push);
  std::uint32_t payload_bytes = 0;
  std::uint32_t checksum = 1;
  std::memcpy(&payload_bytes, frame.data() + 52, sizeof payload_bytes);
  std::memcpy(&checksum, frame.data() + 56, sizeof checksum);
  CHECK(payload_bytes == 1'000);
  CHECK(checksum == 0);
}

TEST_CASE("an agent and a coordinator meet under TLS", "[tls]") {
  const Cluster cluster;
  Meeting meeting(tls_of(cluster.make(trust::Role::coordinator, "main")),
                  tls_of(cluster.make(trust::Role::agent, "a")), "a");
  CHECK(meeting.dial().empty());
}

TEST_CASE("a certificate of another name, role or run is refused at both ends", "[tls]") {
  const Cluster cluster;
  const auto main = tls_of(cluster.make(trust::Role::coordinator, "main"));
  const auto agent = tls_of(cluster.make(trust::Role::agent, "a"));
  CHECK_THAT(Meeting(main, agent, "b").dial(),
             Catch::Contains("agent 'a' of cluster 'lab' may not be agent 'b'"));
  CHECK_THAT(Meeting(main, tls_of(cluster.make(trust::Role::person, "a")), "a").dial(),
             Catch::Contains("person 'a' of cluster 'lab' may not be agent 'a'"));
  CHECK_THAT(Meeting(main, tls_of(process_of(cluster, "alpha", worker_end())), "a").dial(),
             Catch::Contains("process 'alpha/job-1/3' of cluster 'lab' may not be agent 'a'"));
  // An agent on the coordinator's port.
  CHECK_THAT(Meeting(agent, tls_of(cluster.make(trust::Role::agent, "b")), "b").dial(),
             Catch::Contains("agent 'a' of cluster 'lab' may not be coordinator"));
}

TEST_CASE("a process of another run does not get in, whatever secret it knows", "[tls]") {
  const Cluster cluster;
  const auto secret = base::random_secret();
  LinkEnd earlier = worker_end();
  earlier.generation -= 1;
  Server server(quick_limits(), secret, tls_of(process_of(cluster, "beta", server_end())));
  Client client(quick_limits(), tls_of(process_of(cluster, "alpha", earlier)));
  client.secret = secret;
  REQUIRE(client.dial(server.address, 0).ok());
  CHECK_THAT(
      client.recorder->wait_down().text(),
      Catch::Contains("process 'alpha/job-1/2' of cluster 'lab' may not be device server 2"));
  CHECK(server.recorder->ups == 0);
}

TEST_CASE("a process of the same run does not get in as another machine's", "[tls]") {
  const Cluster cluster;
  const auto secret = base::random_secret();
  Server server(quick_limits(), secret, tls_of(process_of(cluster, "beta", server_end())));
  Client client(quick_limits(), tls_of(process_of(cluster, "gamma", worker_end())));
  client.secret = secret;
  REQUIRE(client.dial(server.address, 0).ok());
  CHECK_THAT(client.recorder->wait_down().text(),
             Catch::Contains("process 'gamma/job-1/3' of cluster 'lab' may not be device server 2 "
                             "(alpha)"));
  CHECK(server.recorder->ups == 0);
}

TEST_CASE("one holder's links leave places to others at a coordinator", "[tls]") {
  constexpr int kLinksOfHolderMax = 128;
  const Cluster cluster;
  base::Limits limits = quick_limits();
  limits.handshake_ms = limits.silence_dead_ms = 600'000;  // those that say nothing stay
  Server coordinator(limits, std::nullopt, tls_of(cluster.make(trust::Role::coordinator, "main")),
                     kCoordinator);
  Client person(quick_limits(), tls_of(cluster.make(trust::Role::person, "ann")));
  std::vector<std::shared_ptr<Link>> links;
  const auto dial = [&] {
    const auto recorder = std::make_shared<Recorder>();
    const DialOptions options{
        coordinator.address, agent_end(std::string(kCommandName)), kCoordinator, 0, 0,
        std::nullopt};
    links.push_back(person.links.dial(options, recorder).value());
    return recorder->wait_up() ? "" : recorder->wait_down().text();
  };
  for (int i = 0; i < kLinksOfHolderMax; ++i) REQUIRE(dial().empty());
  CHECK_THAT(dial(), Catch::Contains("person 'ann' of cluster 'lab' has 128 links already"));
  Client agent(quick_limits(), tls_of(cluster.make(trust::Role::agent, "a")));
  agent.self = agent_end("a");
  agent.peer = kCoordinator;
  REQUIRE(agent.dial(coordinator.address, 0).ok());
  CHECK(agent.recorder->wait_up());
}

TEST_CASE("plain and TLS do not meet, and both say why", "[tls]") {
  const Cluster cluster;
  const auto main = tls_of(cluster.make(trust::Role::coordinator, "main"));
  const auto agent = tls_of(cluster.make(trust::Role::agent, "a"));
  CHECK_THAT(Meeting(nullptr, agent, "a").dial(),
             Catch::Contains("connection closed on a greeting of TLS"));
  CHECK_THAT(Meeting(main, nullptr, "a").dial(),
             Catch::Contains("that port speaks TLS; --identity FILE is missing"));
  CHECK_THAT(Meeting(main, tls_of(Cluster().make(trust::Role::agent, "a")), "a").dial(),
             Catch::Contains("its certificate is not believed"));
}

TEST_CASE("a link stays when credentials are renewed, and ends when its peer is revoked", "[tls]") {
  Cluster cluster;
  const auto credentials = cluster.make(trust::Role::agent, "a");
  Meeting meeting(tls_of(cluster.make(trust::Role::coordinator, "main")), tls_of(credentials), "a");
  REQUIRE(meeting.dial().empty());
  meeting.coordinator.links.renew(tls_of(cluster.make(trust::Role::coordinator, "main")));
  meeting.agent.links.renew(tls_of(cluster.make(trust::Role::agent, "a")));
  Envelope asked;
  asked.message = schemas::JobQuery{};
  REQUIRE(meeting.agent.link->send(asked).ok());
  REQUIRE(meeting.coordinator.recorder->wait_envelopes(1));
  Client another(quick_limits(), tls_of(cluster.make(trust::Role::agent, "b")));
  another.self = agent_end("b");
  another.peer = kCoordinator;
  REQUIRE(another.dial(meeting.coordinator.address, 0).ok());
  REQUIRE(another.recorder->wait_up());

  cluster.revoke(credentials);
  meeting.coordinator.links.renew(tls_of(cluster.make(trust::Role::coordinator, "main")));
  CHECK_THAT(meeting.coordinator.recorder->wait_down().text(), Catch::Contains("it was revoked"));
  CHECK_FALSE(meeting.agent.recorder->wait_down().ok());
  CHECK(another.recorder->downs.empty());
}

TEST_CASE("a link knows when its peer's certificate ends, and that of a renewed one", "[tls]") {
  const Cluster cluster;
  const trust::Validity brief{0, 3'000'000'000};
  Meeting meeting(tls_of(cluster.make(trust::Role::coordinator, "main")),
                  tls_of(cluster.make(trust::Role::agent, "a", brief)), "a");
  REQUIRE(meeting.dial().empty());
  REQUIRE(meeting.coordinator.recorder->wait_up());
  CHECK(meeting.coordinator.link->holder_until() == brief.until);
  meeting.agent.links.renew(tls_of(cluster.make(trust::Role::agent, "a")));
  CHECK(meeting.coordinator.link->holder_until() == brief.until);
  meeting.agent.links.dial_anew();
  Envelope asked;
  asked.message = schemas::JobQuery{};
  REQUIRE(meeting.agent.link->send(asked).ok());
  REQUIRE(meeting.agent.recorder->wait([&] { return meeting.agent.recorder->resumes == 1; }));
  REQUIRE(meeting.coordinator.recorder->wait_envelopes(1));  // nothing is lost
  CHECK(meeting.coordinator.link->holder_until() == kLong.until);
  CHECK(meeting.agent.recorder->downs.empty());
  CHECK(meeting.coordinator.recorder->downs.empty());
}

TEST_CASE("links without certificates have no end, and are dialed anew", "[link]") {
  Server server;
  Client client;
  REQUIRE(client.dial(server.address).ok());
  REQUIRE(client.recorder->wait_up());
  REQUIRE(server.recorder->wait_up());
  CHECK(server.link->holder_until() == kNoEnd);
  server.links.dial_anew();  // that is the other end's
  client.links.dial_anew();
  REQUIRE(client.recorder->wait([&] { return client.recorder->resumes == 1; }));
  CHECK(client.recorder->cuts.size() == 1);
  CHECK(client.recorder->downs.empty());
}

TEST_CASE("who is revoked between its handshake and its Hello is refused", "[tls]") {
  Cluster cluster;
  const auto credentials = cluster.make(trust::Role::agent, "a");
  Server coordinator(quick_limits(), std::nullopt,
                     tls_of(cluster.make(trust::Role::coordinator, "main")), kCoordinator);
  const auto agent = ByHand::dial(coordinator.address, tls_of(credentials));
  agent->until([&] { return agent->greeted(); });
  cluster.revoke(credentials);
  coordinator.links.renew(tls_of(cluster.make(trust::Role::coordinator, "main")));
  Envelope envelope;
  schemas::Hello hello;
  hello.actor = agent_end("a").actor;
  hello.name = "a";
  hello.lanes = 1;
  envelope.message = hello;
  agent->send(envelope);
  const auto reply = std::get<schemas::HelloReply>(agent->first_frame().first.message);
  CHECK(reply.code == Errc::permission_denied);
  CHECK(reply.text ==
        "[link] agent 'a' of cluster 'lab': its certificate is not believed: it was revoked");
  CHECK(coordinator.recorder->ups == 0);
}

TEST_CASE("a listener that is revoked while it shakes hands gets no link", "[tls]") {
  Cluster cluster;
  const auto credentials = cluster.make(trust::Role::coordinator, "main");
  Client agent(quick_limits(), tls_of(cluster.make(trust::Role::agent, "a")));
  agent.self = agent_end("a");
  agent.peer = kCoordinator;
  ByHand port;
  REQUIRE(agent.dial(port.listen(), 0).ok());
  port.accept();
  cluster.revoke(credentials);
  agent.links.renew(tls_of(cluster.make(trust::Role::agent, "a")));
  port.greet(tls_of(credentials));
  static_cast<void>(port.first_frame());
  port.send(yes_to(kCoordinator));
  port.until([&] { return port.ended(); });
  CHECK_THAT(
      agent.recorder->wait_down().text(),
      Catch::Contains("coordinator 'main' of cluster 'lab'") && Catch::Contains("it was revoked"));
}

TEST_CASE("a cut link goes on for the same holder's certificate alone", "[tls]") {
  const Cluster cluster;
  Server coordinator(quick_limits(), std::nullopt,
                     tls_of(cluster.make(trust::Role::coordinator, "main")), kCoordinator);
  // The first connection is cut in the middle of the message.
  Proxy proxy(coordinator.address, [](int connection) {
    return Proxy::Blow{connection == 0 ? 12'000 : ~std::size_t{0}};
  });
  Client person(quick_limits(), tls_of(cluster.make(trust::Role::person, "ann")));
  person.self = agent_end(std::string(kCommandName));
  person.peer = kCoordinator;
  REQUIRE(person.dial(proxy.address(), 0).ok());
  REQUIRE(person.recorder->wait_up());
  Envelope asked;
  asked.message = schemas::JobSubmit{"x", std::string(40'000, 'x'), ""};
  SECTION("renewed") {
    person.links.renew(tls_of(cluster.make(trust::Role::person, "ann")));
    REQUIRE(person.link->send(asked).ok());
    CHECK(coordinator.recorder->wait_envelopes(1));
  }
  SECTION("another person's") {
    person.links.renew(tls_of(cluster.make(trust::Role::person, "ben")));
    REQUIRE(person.link->send(asked).ok());
    CHECK(person.recorder->wait_down().code() == Errc::not_found);
    CHECK(coordinator.recorder->envelopes.empty());
  }
}

TEST_CASE("without TLS no address off the loopback is used", "[tls]") {
  CountingPool pool;
  LinkSet plain(quick_limits(), pool);
  const Acceptor nobody = [](const schemas::Hello&, const std::shared_ptr<Link>&) {
    return Result<std::shared_ptr<LinkHandler>>(base::error(Errc::unavailable, "nobody"));
  };
  CHECK(plain.listen("192.0.2.1:0", kCoordinator, nobody).status().code() ==
        Errc::permission_denied);
  LinkSet secured(quick_limits(), pool, tls_of(Cluster().make(trust::Role::coordinator, "main")));
  // No interface has this address; that it is asked at all shows that it was allowed.
  CHECK(secured.listen("192.0.2.1:0", kCoordinator, nobody).status().code() == Errc::unavailable);
}

}  // namespace
}  // namespace troupe::link::test
