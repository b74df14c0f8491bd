// SPDX-License-Identifier: Apache-2.0
// Who may come in: greetings, versions, strangers, crowds; and what a failed dial says.
#include <random>

#include "link/handshake.h"
#include "tests/link/link_support.h"

namespace troupe::link::test {
namespace {

/// An established link keeps working while something bad happens to the listener.
struct Bystander {
  explicit Bystander(Server& s) : server(s) {
    REQUIRE(client.dial(server.address).ok());
    REQUIRE(server.recorder->wait_up());
  }
  void check() {
    const std::size_t before = server.recorder->envelopes.size();
    REQUIRE(client.link->send(push_of(0, 0, 10'000)).ok());
    CHECK(server.recorder->wait_envelopes(before + 1));
    CHECK(client.recorder->cuts.empty());
    CHECK(server.recorder->downs.empty());
  }
  Server& server;
  Client client;
};

TEST_CASE("a port in use is refused with its address", "[listener]") {
  Server first;
  CountingPool pool;
  LinkSet links(quick_limits(), pool);
  const auto second = links.listen(first.address, server_end(), nullptr);
  CHECK(second.status().code() == Errc::resource_exhausted);
  CHECK_THAT(second.status().text(), Catch::Contains("parameter server 1 (beta) cannot listen on " +
                                                     first.address + ": Address already in use"));
}

TEST_CASE("links neither listen on nor dial what is not loopback", "[listener]") {
  Client client;
  CHECK(client.dial("10.0.0.1:80").code() == Errc::permission_denied);
  CHECK(client.links.listen("0.0.0.0:0", worker_end(), nullptr).status().code() ==
        Errc::permission_denied);
}

TEST_CASE("a dial that finds nobody names both ends and the address", "[listener]") {
  std::string address;
  Plain::listen(address).close();
  Client client;
  REQUIRE(client.dial(address).ok());
  const Status down = client.recorder->wait_down();
  CHECK(down.code() == Errc::unavailable);
  CHECK(down.text() == "[link] device server 2 (alpha) cannot reach parameter server 1 (beta) at " +
                           address + ": Connection refused");
  CHECK(client.link->send(push_of(0, 0, 10)) == down);
}

TEST_CASE("a dial with wait_ms goes on until somebody listens", "[listener]") {
  std::string address;
  Plain::listen(address).close();
  Client client;
  REQUIRE(client.dial(address, 1, 10'000).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(client.recorder->downs.empty());
  CountingPool pool;
  LinkSet links(quick_limits(), pool);
  const auto heard = std::make_shared<Recorder>();
  REQUIRE(links
              .listen(address, server_end(),
                      [&](const auto&, const auto&) {
                        return Result<std::shared_ptr<LinkHandler>>(heard);
                      })
              .ok());
  CHECK(client.recorder->wait_up());
}

TEST_CASE("the owner's refusal reaches the dialing end", "[listener]") {
  CountingPool pool;
  LinkSet links(quick_limits(), pool);
  const auto address = links.listen(
      "127.0.0.1:0", server_end(),
      [](const schemas::Hello& hello, const auto&) -> Result<std::shared_ptr<LinkHandler>> {
        return base::error(Errc::already_exists, "machine '{}' has joined already", hello.name);
      });
  Client client;
  REQUIRE(client.dial(*address, 1, 5'000).ok());
  const Status down = client.recorder->wait_down();
  CHECK(down.code() == Errc::already_exists);
  CHECK_THAT(down.text(), Catch::Contains("machine 'alpha' has joined already"));
}

TEST_CASE("a peer of another job or generation is refused", "[listener]") {
  Server server;
  Client client;
  DialOptions options{server.address, worker_end(), server_end(), 1, 0};
  options.self.generation = 4;
  REQUIRE(client.links.dial(options, client.recorder).ok());
  const Status down = client.recorder->wait_down();
  CHECK(down.code() == Errc::failed_precondition);
  CHECK_THAT(down.text(), Catch::Contains("generation 4 meets"));
}

TEST_CASE("another protocol version is told both numbers and closed", "[listener]") {
  Server server;
  Bystander bystander(server);
  const Plain old = Plain::connect(server.address);
  REQUIRE(old.send(frame_bytes(hello_of(1), 0, 2)));
  const auto reply = next_frame(old);
  REQUIRE(reply.ok());
  const auto& refusal = std::get<schemas::HelloReply>(reply->message);
  CHECK(refusal.code == Errc::version_mismatch);
  CHECK_THAT(refusal.text, Catch::Contains("protocol version 2, this program 1"));
  CHECK(old.closed_by_peer());
  bystander.check();
}

TEST_CASE("a dialed peer of another version is named with both numbers", "[listener]") {
  std::string address;
  const Plain gate = Plain::listen(address);
  Client client;
  REQUIRE(client.dial(address, 1, 5'000).ok());
  const Plain peer = gate.accept();
  REQUIRE(next_frame(peer).ok());
  Envelope welcome;
  welcome.message = schemas::HelloReply{};
  REQUIRE(peer.send(frame_bytes(welcome, 0, 9)));
  const Status down = client.recorder->wait_down();
  CHECK(down.code() == Errc::version_mismatch);
  CHECK_THAT(down.text(), Catch::Contains("protocol version 9, this program 1"));
}

TEST_CASE("strangers are closed and disturb nobody", "[listener]") {
  Server server;
  Bystander bystander(server);
  std::mt19937_64 random(5);
  for (int round = 0; round < 40; ++round) {
    std::string bytes = frame_bytes(hello_of(random()), 0);
    switch (round % 4) {
      case 0:  // noise
        for (char& c : bytes) c = static_cast<char>(random());
        break;
      case 1:  // another protocol
        bytes = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        break;
      case 2:  // a whole frame before the greeting
        bytes = frame_bytes(push_of(0, 0, 100), 1);
        break;
      default:  // one flipped bit, not in a length: those only wait for more bytes
        bytes[56 + random() % (bytes.size() - 56)] ^= 16;
    }
    const Plain stranger = Plain::connect(server.address);
    stranger.send(bytes);
    CHECK(stranger.closed_by_peer());
  }
  bystander.check();
}

TEST_CASE("a Hello beyond its limit is refused unread", "[listener]") {
  Server server;
  const Plain peer = Plain::connect(server.address);
  Envelope hello = hello_of(1);
  std::get<schemas::Hello>(hello.message).name.assign(3'000, 'n');
  std::string bytes = frame_bytes(hello, 0);
  REQUIRE(bytes.size() < 4'096);
  const std::uint32_t large = 4'097;
  std::memcpy(bytes.data() + 48, &large, sizeof large);
  REQUIRE(peer.send(bytes.substr(0, kFrameHeadBytes)));
  CHECK(peer.closed_by_peer());
}

TEST_CASE("whoever does not greet in time is closed", "[listener]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 100;
  Server server(limits);
  const Plain silent = Plain::connect(server.address);
  const Plain slow = Plain::connect(server.address);
  REQUIRE(slow.send(frame_bytes(hello_of(1), 0).substr(0, 30)));
  CHECK(silent.closed_by_peer());
  CHECK(slow.closed_by_peer());
}

TEST_CASE("a resume of a link that nobody knows is refused", "[listener]") {
  Server server;
  Envelope hello = hello_of(77);
  std::get<schemas::Hello>(hello.message).resume = true;
  const Plain peer = Plain::connect(server.address);
  REQUIRE(peer.send(frame_bytes(hello, 0)));
  const auto reply = next_frame(peer);
  REQUIRE(reply.ok());
  CHECK(std::get<schemas::HelloReply>(reply->message).code == Errc::not_found);
}

TEST_CASE("a greeted peer that breaks the rules loses its own link only", "[listener]") {
  Server server;
  const Plain peer = Plain::connect(server.address);
  REQUIRE(peer.send(frame_bytes(hello_of(5), 0)));
  REQUIRE(next_frame(peer).ok());
  REQUIRE(server.recorder->wait_up());
  Envelope push = push_of(0, 0, 10);
  std::string bytes = frame_bytes(push, 1);
  SECTION("a head that contradicts its header") {
    push.view = 9;
    const std::string header = schemas::encode_envelope(push).value();
    FrameHead head;
    head.type = 0;
    head.sequence = 1;
    head.job_hash = base::hash64(push.job);
    head.generation = push.generation;
    head.view = 8;
    head.header_bytes = static_cast<std::uint32_t>(header.size());
    const auto encoded = encode_frame_head(head, std::as_bytes(std::span(header)));
    bytes = std::string(reinterpret_cast<const char*>(encoded.data()), encoded.size()) + header;
  }
  SECTION("an envelope of another job") {
    push.job = std::string("job-2");
    bytes = frame_bytes(push, 1);
  }
  SECTION("an envelope of another run") {
    push.generation += 1;
    bytes = frame_bytes(push, 1);
  }
  SECTION("a second Hello") {
    bytes = frame_bytes(hello_of(5), 0);
  }
  SECTION("a push without a sequence number") {
    bytes = frame_bytes(push, 0);
  }
  SECTION("a ping with one") {
    push.message = schemas::Ping{1};
    push.payload = {};
    bytes = frame_bytes(push, 1);
  }
  REQUIRE(peer.send(bytes));
  CHECK(server.recorder->wait_down().code() == Errc::data_loss);
  CHECK(server.recorder->envelopes.empty());
  CHECK(peer.closed_by_peer());
}

// ---- the job's secret ----

constexpr base::Secret kSecret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr base::Secret kOther = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17};

template <typename Message>
Envelope envelope_of(Message message) {
  Envelope envelope;
  envelope.message = std::move(message);
  return envelope;
}

/// Says Hello by hand; gives what proves it under `secret`.
Envelope say_hello(const Plain& peer, const schemas::Hello& hello, const base::Secret& secret) {
  Envelope said = hello_of(0);
  said.job = hello.job;
  said.generation = hello.generation;
  said.message = hello;
  REQUIRE(peer.send(frame_bytes(said, 0)));
  const auto answer = next_frame(peer);
  REQUIRE(answer.ok());
  const auto& challenge = std::get<schemas::Challenge>(answer->message);
  // Before the proof the listener says nothing of itself.
  CHECK(answer->job.empty());
  CHECK(answer->generation == 0);
  CHECK(answer->from == schemas::ActorId());
  return envelope_of(schemas::Proof{
      make_proof(secret, Side::dialing, {hello, server_end().actor, challenge.nonce})});
}

TEST_CASE("ends that prove the job's secret to each other are linked", "[secret]") {
  Server server(quick_limits(), kSecret);
  Client client;
  client.secret = kSecret;
  REQUIRE(client.dial(server.address, 2).ok());
  REQUIRE(client.recorder->wait_up());
  REQUIRE(client.link->send(push_of(0, 7, 10'000)).ok());
  REQUIRE(server.recorder->wait_envelopes(1));
  REQUIRE(server.link->send(push_of(0, 8, 10'000)).ok());
  CHECK(client.recorder->wait_envelopes(1));
}

TEST_CASE("who does not prove the secret is refused and disturbs nobody", "[secret]") {
  Server server(quick_limits(), kSecret);
  Client honest;
  honest.secret = kSecret;
  REQUIRE(honest.dial(server.address).ok());
  REQUIRE(server.recorder->wait_up());
  Client stranger;
  SECTION("another secret") {
    stranger.secret = kOther;
    REQUIRE(stranger.dial(server.address).ok());
    const Status down = stranger.recorder->wait_down();
    CHECK(down.code() == Errc::permission_denied);
    CHECK_THAT(down.text(), Catch::Contains("the Hello does not prove the job's secret"));
  }
  SECTION("no secret") {
    REQUIRE(stranger.dial(server.address).ok());
    CHECK_THAT(stranger.recorder->wait_down().text(), Catch::Contains("a Challenge out of turn"));
  }
  REQUIRE(honest.link->send(push_of(0, 0, 10'000)).ok());
  CHECK(server.recorder->wait_envelopes(1));
  CHECK(server.recorder->ups == 1);
  CHECK(server.recorder->downs.empty());
}

TEST_CASE("a refusal tells neither job nor run nor who listens", "[secret]") {
  Server server(quick_limits(), kSecret);
  schemas::Hello hello = std::get<schemas::Hello>(hello_of(9).message);
  SECTION("all is right but the proof") {}
  SECTION("another job") {
    hello.job = std::string("job-2");
  }
  SECTION("another run") {
    hello.generation = 99;
  }
  SECTION("a link to be resumed") {
    hello.resume = true;
  }
  SECTION("another protocol") {
    hello.protocol = 99;
  }
  const Plain peer = Plain::connect(server.address);
  REQUIRE(peer.send(frame_bytes(say_hello(peer, hello, kOther), 0)));
  const auto answer = next_frame(peer);
  REQUIRE(answer.ok());
  CHECK(answer->job.empty());
  CHECK(answer->generation == 0);
  CHECK(answer->from == schemas::ActorId());
  const auto& refusal = std::get<schemas::HelloReply>(answer->message);
  CHECK(refusal.code == Errc::permission_denied);
  CHECK(refusal.text == "[link] the Hello does not prove the job's secret");
  CHECK(refusal.proof == base::Sha256Digest{});
  CHECK(peer.closed_by_peer());
}

TEST_CASE("a proof holds for its own greeting only", "[secret]") {
  Server server(quick_limits(), kSecret);
  schemas::Hello hello = std::get<schemas::Hello>(hello_of(9).message);
  hello.nonce = base::random_secret();
  const Plain honest = Plain::connect(server.address);
  const Envelope proof = say_hello(honest, hello, kSecret);
  REQUIRE(honest.send(frame_bytes(proof, 0)));
  const auto welcome = next_frame(honest);
  REQUIRE(welcome.ok());
  CHECK(std::get<schemas::HelloReply>(welcome->message).code == Errc::ok);

  const Plain replay = Plain::connect(server.address);
  say_hello(replay, hello, kSecret);
  REQUIRE(replay.send(frame_bytes(proof, 0)));
  const auto refused = next_frame(replay);
  REQUIRE(refused.ok());
  CHECK(std::get<schemas::HelloReply>(refused->message).code == Errc::permission_denied);
}

TEST_CASE("a listener that does not prove the secret is spoken to by nobody", "[secret]") {
  std::string address;
  const Plain gate = Plain::listen(address);
  Client client;
  client.secret = kSecret;
  REQUIRE(client.dial(address).ok());
  const Plain impostor = gate.accept();
  const auto hello = next_frame(impostor);
  REQUIRE(hello.ok());
  schemas::HelloReply welcome;
  std::string bytes;
  SECTION("a welcome alone") {}
  SECTION("a welcome with the Hello's own proof") {
    const schemas::Challenge challenge{base::random_secret()};
    const Introduction introduction{std::get<schemas::Hello>(hello->message), server_end().actor,
                                    challenge.nonce};
    welcome.proof = make_proof(kSecret, Side::dialing, introduction);
    bytes = frame_bytes(envelope_of(challenge), 0);
  }
  SECTION("a Hello of its own") {
    REQUIRE(impostor.send(frame_bytes(hello_of(1), 0)));
    CHECK_THAT(client.recorder->wait_down().text(), Catch::Contains("a Hello before the greeting"));
    return;
  }
  REQUIRE(impostor.send(bytes + frame_bytes(envelope_of(welcome), 0)));
  const Status down = client.recorder->wait_down();
  CHECK(down.code() == Errc::permission_denied);
  CHECK_THAT(down.text(), Catch::Contains("who listens there does not prove the job's secret"));
  CHECK(client.recorder->ups == 0);
}

TEST_CASE("frames that come before the Challenge has left harm nobody", "[secret]") {
  Server server(quick_limits(), kSecret);
  const std::string hello = frame_bytes(hello_of(9), 0);
  const std::string proof = frame_bytes(envelope_of(schemas::Proof{}), 0);
  std::string second;
  SECTION("a proof of nothing") {
    second = proof;
  }
  SECTION("two proofs") {
    second = proof + proof;
  }
  SECTION("a Hello") {
    second = hello;
  }
  SECTION("a frame of another version") {
    second = frame_bytes(hello_of(9), 0, 7);
  }
  SECTION("the end of the job") {
    second = frame_bytes(envelope_of(schemas::JobEnd{}), 1);
  }
  for (int round = 0; round < 20; ++round) {
    const Plain stranger = Plain::connect(server.address);
    REQUIRE(stranger.send(hello + second));
    CHECK(stranger.closed_by_peer());
  }
  Client honest;
  honest.secret = kSecret;
  REQUIRE(honest.dial(server.address).ok());
  CHECK(honest.recorder->wait_up());
  CHECK(server.recorder->downs.empty());
}

TEST_CASE("who has proved the secret has as long as a job's start for its other connections",
          "[secret]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 200;
  limits.start_ms = 3'600'000;
  Server server(limits);
  Server secret_server(limits, kSecret);
  const Plain proved = Plain::connect(secret_server.address);
  const auto hello = std::get<schemas::Hello>(hello_of(9, 2).message);
  REQUIRE(proved.send(frame_bytes(say_hello(proved, hello, kSecret), 0)));
  REQUIRE(next_frame(proved).ok());
  const Plain stranger = Plain::connect(server.address);
  REQUIRE(stranger.send(frame_bytes(hello_of(9, 2), 0)));
  const Status down = server.recorder->wait_down();
  CHECK(down.code() == Errc::deadline_exceeded);
  CHECK_THAT(down.text(), Catch::Contains("no greeting in time"));
  CHECK(secret_server.recorder->downs.empty());
}

TEST_CASE("a listener that knows the secret may take a job's start to answer", "[secret]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 200;
  std::string busy_address, address;
  const Plain busy_gate = Plain::listen(busy_address);
  const Plain gate = Plain::listen(address);
  Client patient(limits);
  patient.secret = kSecret;
  REQUIRE(patient.dial(busy_address, 1, 3'600'000).ok());
  const Plain busy = busy_gate.accept();
  REQUIRE(next_frame(busy).ok());
  Client hasty(limits);
  REQUIRE(hasty.dial(address, 1, 3'600'000).ok());
  const Plain mute = gate.accept();
  REQUIRE(next_frame(mute).ok());
  CHECK(mute.closed_by_peer());
  REQUIRE(busy.send(frame_bytes(envelope_of(schemas::Challenge{base::random_secret()}), 0)));
  const auto answer = next_frame(busy);
  REQUIRE(answer.ok());
  CHECK(std::holds_alternative<schemas::Proof>(answer->message));
}

TEST_CASE("who says nothing but Hello goes, who has said something or proved the secret stays",
          "[listener]") {
  base::Limits limits = quick_limits();
  limits.handshake_ms = 200;
  Server server(limits);
  Server secret_server(limits, kSecret);
  Client mute, speaking, proved;
  proved.secret = kSecret;
  REQUIRE(proved.dial(secret_server.address).ok());
  REQUIRE(proved.recorder->wait_up());
  // Both share the server's record: one envelope, one end.
  REQUIRE(speaking.dial(server.address).ok());
  REQUIRE(speaking.link->send(push_of(0, 0, 10)).ok());
  REQUIRE(server.recorder->wait_envelopes(1));
  REQUIRE(mute.dial(server.address).ok());
  const Status down = server.recorder->wait_down();
  CHECK(down.code() == Errc::deadline_exceeded);
  CHECK_THAT(down.text(), Catch::Contains("said nothing but Hello for 200 ms"));
  CHECK(mute.recorder->wait_down().code() != Errc::ok);
  REQUIRE(speaking.link->send(push_of(0, 1, 10)).ok());
  CHECK(server.recorder->wait([&] { return server.recorder->envelopes.size() == 2; }));
  CHECK(server.recorder->downs.size() == 1);
  CHECK(speaking.recorder->downs.empty());
  CHECK(secret_server.recorder->downs.empty());
}

/// A frame that a peer might send, rightly or not.
std::string any_frame(std::mt19937_64& random) {
  Envelope envelope = hello_of(random() % 3);
  auto& hello = std::get<schemas::Hello>(envelope.message);
  std::uint64_t sequence = random() % 3;
  switch (random() % 9) {
    case 7:
      envelope.message = schemas::Proof{};
      sequence = 0;
      break;
    case 8:
      envelope.message = schemas::Challenge{};
      sequence = 0;
      break;
    case 0:
      hello.lanes = 1 + random() % 3;
      hello.resume = random() % 2 == 0;
      sequence = 0;
      break;
    case 1:
      hello.protocol = static_cast<std::uint32_t>(random());
      break;
    case 2:
      envelope = push_of(0, 0, random() % 3 * 1'000);
      break;
    case 3:
      envelope.message = schemas::Ping{random()};
      sequence = 0;
      break;
    case 4:
      envelope.message = schemas::Goodbye{"bye"};
      sequence = 0;
      break;
    case 5:
      envelope.message = schemas::HelloReply{};
      break;
    default:
      break;
  }
  std::string bytes = frame_bytes(envelope, sequence);
  switch (random() % 8) {
    case 0:
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      break;
    case 1:
      bytes.resize(random() % bytes.size());
      break;
    default:
      break;
  }
  return bytes;
}

TEST_CASE("no sequence of frames, whole or damaged, harms another link", "[listener]") {
  CountingPool pool;
  LinkSet links(quick_limits(), pool);
  const auto trusted = std::make_shared<Recorder>();
  Client honest;
  if (GENERATE(false, true)) honest.secret = kSecret;
  const auto address = links.listen(
      "127.0.0.1:0", server_end(),
      [&](const schemas::Hello& hello, const auto&) {
        const bool known = hello.name == "alpha";
        return Result<std::shared_ptr<LinkHandler>>(known ? trusted : std::make_shared<Recorder>());
      },
      honest.secret);
  REQUIRE(honest.dial(*address).ok());
  std::mt19937_64 random(2'026);
  for (int round = 0; round < 150; ++round) {
    const Plain peer = Plain::connect(*address);
    for (auto frames = 1 + random() % 6; frames > 0; --frames) {
      if (!peer.send(any_frame(random))) break;
    }
    if (round % 10 == 0) REQUIRE(honest.link->send(push_of(1, 0, 5'000)).ok());
  }
  CHECK(trusted->wait_envelopes(15));
  CHECK(trusted->downs.empty());
  CHECK(honest.recorder->cuts.empty());
}

TEST_CASE("no more links than connections_max allows", "[listener]") {
  base::Limits limits = quick_limits();
  limits.connections_max = 5;
  Server server(limits);
  Client first;
  REQUIRE(first.dial(server.address, 3).ok());
  REQUIRE(first.recorder->wait_up());
  Client second;
  REQUIRE(second.dial(server.address).ok());
  CHECK(second.recorder->wait_down().code() == Errc::resource_exhausted);
}

}  // namespace
}  // namespace troupe::link::test
