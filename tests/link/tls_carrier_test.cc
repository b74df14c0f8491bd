// SPDX-License-Identifier: Apache-2.0
// Whom TLS believes: every kind of bad credentials, and bytes that are no TLS, each with a named
// reason at both ends.
#include "link/tls_carrier.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "tests/link/carrier_support.h"

namespace troupe::link {
namespace {

using test::Cluster;
using test::Ends;
using test::Reader;
using trust::Credentials;
using trust::Role;

Ends::Make tls_end(const Credentials& credentials, TlsEnd end) {
  return [tls = test::tls_of(credentials), end](Socket socket) {
    return make_tls_carrier(std::move(socket), tls, end);
  };
}

/// Why the dialing and the accepting end gave up; empty: it did not.
struct Outcome {
  std::string dialing;
  std::string accepting;
};

/// Both ends send a byte and read one, or learn why they cannot.
Outcome meet(const Ends::Make& dialing, const Ends::Make& accepting) {
  Ends ends(dialing, accepting);
  Reader at_a(ends.a, 0, 100);
  Reader at_b(ends.b, 0, 100);
  at_a.start();
  at_b.start();
  const std::vector<std::byte> byte(1);
  for (const auto& carrier : {ends.a, ends.b}) {
    carrier->send(
        {byte}, [] { return true; }, [](const base::Status&) {});
  }
  const auto over = [](const Reader& reader) { return reader.end || !reader.text.empty(); };
  ends.until([&] {
    if (at_a.end) ends.a->close();
    if (at_b.end) ends.b->close();
    return over(at_a) && over(at_b);
  });
  // Of TLS 1.3 the dialing end may read before it learns that it is refused.
  if (at_b.end && !at_a.end) ends.until([&] { return at_a.end.has_value(); });
  if (at_a.end && !at_b.end) ends.until([&] { return at_b.end.has_value(); });
  return {at_a.end ? at_a.end->text() : "", at_b.end ? at_b.end->text() : ""};
}

Outcome meet(const Credentials& dialing, const Credentials& accepting) {
  return meet(tls_end(dialing, TlsEnd::dialing), tls_end(accepting, TlsEnd::accepting));
}

TEST_CASE("both ends learn who the other is", "[tls]") {
  const Cluster cluster;
  const Credentials agent = cluster.make(Role::agent, "a");
  Ends ends(tls_end(agent, TlsEnd::dialing),
            tls_end(cluster.make(Role::coordinator, "main"), TlsEnd::accepting));
  CHECK(ends.a->peer() == nullptr);
  Reader at_a(ends.a, 0, 100);
  Reader at_b(ends.b, 0, 100);
  at_a.start();
  at_b.start();
  const std::vector<std::byte> byte(1);
  for (const auto& carrier : {ends.a, ends.b}) {
    carrier->send(
        {byte}, [] { return true; }, [](const base::Status&) {});
  }
  ends.until([&] { return !at_a.text.empty() && !at_b.text.empty(); });
  CHECK(ends.a->peer()->identity == trust::Identity{"lab", Role::coordinator, "main"});
  CHECK(ends.b->peer()->identity == trust::Identity{"lab", Role::agent, "a"});
}

TEST_CASE("processes of a job speak by their agents' word", "[tls]") {
  const Cluster cluster;
  const auto process = [&](const std::string& agent) {
    return trust::delegate(cluster.make(Role::agent, agent),
                           {"lab", Role::process, agent + "/mnist/1"}, test::kLong)
        .value();
  };
  const Outcome good = meet(process("a"), process("b"));
  CHECK(good.dialing.empty());
  CHECK(good.accepting.empty());
  Credentials forged = process("a");  // shown with another agent's certificate above
  forged.above = cluster.make(Role::agent, "b").own.certificate;
  CHECK_THAT(meet(forged, process("b")).accepting, Catch::Contains("is not believed"));
  forged.above.clear();
  CHECK_THAT(meet(forged, process("b")).accepting,
             Catch::Contains("unable to get local issuer certificate"));
}

TEST_CASE("who is not believed is refused with the reason at both ends", "[tls]") {
  const auto [name, here, there] = GENERATE(table<std::string, std::string, std::string>({
      {"expired", "certificate has expired", "certificate expired"},
      {"not yet", "certificate is not yet valid", "bad certificate"},
      {"other authority", "certificate verify failed", ""},
      {"other cluster", "", ""},
      {"revoked", "it was revoked", "certificate revoked"},
  }));
  CAPTURE(name);
  Cluster cluster;
  const Cluster other("lab");
  const Cluster foreign("elsewhere");
  Credentials bad = cluster.make(Role::agent, "a");
  if (name == "expired") bad = cluster.make(Role::agent, "a", {0, 1'000'000'000});
  if (name == "not yet") bad = cluster.make(Role::agent, "a", {3'900'000'000, 4'000'000'000});
  if (name == "other authority") bad = other.make(Role::agent, "a");
  if (name == "other cluster") bad = foreign.make(Role::agent, "a");
  if (name == "revoked") cluster.revoke(bad);
  const bool strange = name.starts_with("other");
  if (strange) bad.authority = cluster.make(Role::agent, "x").authority;  // it believes us
  const Credentials good = cluster.make(Role::coordinator, "main");
  for (const bool dials : {true, false}) {
    const Outcome outcome = dials ? meet(bad, good) : meet(good, bad);
    const std::string& judge = dials ? outcome.accepting : outcome.dialing;
    const std::string& judged = dials ? outcome.dialing : outcome.accepting;
    CAPTURE(judge, judged);
    CHECK_THAT(judge, Catch::StartsWith("[tls]: its certificate is not believed"));
    if (!strange) CHECK_THAT(judge, Catch::Contains(here));
    CHECK_THAT(judged, Catch::Contains("[tls] the peer refused"));
    if (!strange) CHECK_THAT(judged, Catch::Contains(there));
  }
}

TEST_CASE("bytes that are no TLS are named, and TLS at a plain port ends there", "[tls]") {
  const Cluster cluster;
  const auto tls = tls_end(cluster.make(Role::coordinator, "main"), TlsEnd::accepting);
  Ends ends(make_plain_carrier, tls);
  Reader at_b(ends.b, 0, 100);
  at_b.start();
  const auto [text, name] = GENERATE(
      table<std::string, std::string>({{"TRPE and more of a frame, 64 bytes long",
                                        "the peer speaks without TLS: it has no --identity"},
                                       {"GET /metrics HTTP/1.1\r\n\r\n", "an HTTP request"},
                                       {std::string(100, '\0'), "it begins with 0x00000000"},
                                       {"x", "it begins with 0x78"}}));
  ends.a->send(
      {std::as_bytes(std::span(text))}, [] { return true; }, [](const base::Status&) {});
  ends.until([&] { return at_b.end.has_value(); });
  CHECK(at_b.end->code() == base::Errc::data_loss);
  CHECK_THAT(at_b.end->text(), Catch::StartsWith("[tls] no greeting of TLS 1.3 came: " + name));
  // The other end is told what to speak.
  Reader at_a(ends.a, 0, 100);
  at_a.start();
  ends.until([&] { return at_a.text.size() == 7; });
  CHECK(at_a.text[0] == std::byte{0x15});
  CHECK(at_a.text[1] == std::byte{0x03});
}

TEST_CASE("a flipped bit behind the greeting is damage, a cut is a closed connection", "[tls]") {
  const Cluster cluster;
  const bool cut = GENERATE(true, false);
  Ends ends(tls_end(cluster.make(Role::agent, "a"), TlsEnd::dialing),
            tls_end(cluster.make(Role::coordinator, "main"), TlsEnd::accepting));
  Reader at_b(ends.b, 0, 100);
  Reader at_a(ends.a, 0, 100);
  at_b.start();
  at_a.start();
  const std::vector<std::byte> byte(1);
  bool sent = false;
  ends.a->send(
      {byte}, [] { return true; }, [&](const base::Status&) { sent = true; });
  ends.until([&] { return sent && !at_b.text.empty(); });
  if (cut) {
    ::shutdown(ends.raw_near, SHUT_WR);  // no last record
  } else {
    const std::string record = {0x17, 0x03, 0x03, 0x00, 0x20};
    const std::string forged = record + std::string(32, 'x');
    REQUIRE(::send(ends.raw_near, forged.data(), forged.size(), 0) == 37);
  }
  ends.until([&] { return at_b.end.has_value(); });
  CHECK(at_b.end->code() == (cut ? base::Errc::unavailable : base::Errc::data_loss));
  CHECK(at_b.text.size() == 1);
}

TEST_CASE("a peer that wants answers of TLS itself and reads none is not read from for ever",
          "[tls]") {
  const Cluster cluster;
  const auto keep_little = [](int socket) {  // in the system; so this end shows what it keeps
    const int bytes = 65'536;
    for (const int option : {SO_RCVBUF, SO_SNDBUF}) {
      REQUIRE(::setsockopt(socket, SOL_SOCKET, option, &bytes, sizeof bytes) == 0);
    }
  };
  const auto accepting = tls_end(cluster.make(Role::coordinator, "main"), TlsEnd::accepting);
  Ends ends(make_plain_carrier, [&](Socket socket) {
    keep_little(socket.native_handle());
    return accepting(std::move(socket));
  });
  Reader at_b(ends.b, 0, 100);
  at_b.start();
  REQUIRE(::fcntl(ends.raw_near, F_SETFL, O_NONBLOCK) == 0);
  keep_little(ends.raw_near);
  Tls::Peer peer;
  const auto tls = test::tls_of(cluster.make(Role::agent, "a"));
  const std::unique_ptr<SSL, decltype(&SSL_free)> session(tls->make_session(peer), SSL_free);
  SSL* ssl = session.get();
  SSL_set_connect_state(ssl);
  REQUIRE(SSL_set_fd(ssl, ends.raw_near) == 1);
  const auto done = [ssl] { return SSL_do_handshake(ssl) == 1; };
  ends.until(done);
  // Each asks for a new key and wants another 27 bytes back, which nobody reads.
  constexpr int kMost = 300'000;
  constexpr int kIdleRounds = 300;
  int asked = 0;
  for (int idle = 0; asked < kMost && idle < kIdleRounds; ++idle) {
    while (asked < kMost && done() && SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1) {
      ++asked;
      idle = 0;
    }
    ends.io.restart();
    ends.io.run_for(std::chrono::milliseconds(1));
  }
  CHECK(asked > 10'000);  // all of them were well-formed
  CHECK(asked < kMost);
  CHECK_FALSE(at_b.end);
}

TEST_CASE("credentials that OpenSSL cannot use are an error", "[tls]") {
  const Cluster cluster;
  Credentials bad = cluster.make(Role::agent, "a");
  bad.own.key = "x";
  CHECK(Tls::create(bad).status().code() == base::Errc::data_loss);
  bad = cluster.make(Role::agent, "a");
  bad.deny_list = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
  CHECK(Tls::create(bad).status().code() == base::Errc::data_loss);
  Cluster other;
  other.revoke(bad);
  bad.deny_list = other.make(Role::agent, "b").deny_list;  // another authority's
  CHECK(Tls::create(bad).status().code() == base::Errc::permission_denied);
  CHECK(Tls::create(cluster.make(Role::agent, "a")).value()->identity().name == "a");
}

}  // namespace
}  // namespace troupe::link
