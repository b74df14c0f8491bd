// SPDX-License-Identifier: Apache-2.0
// Pages under TLS: large ones arrive whole, strangers and slow peers disturb nobody.
#include "http/tls.h"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "http/server.h"
#include "tests/http/guarded_support.h"
#include "tests/support/catch.h"

namespace troupe::http {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;

/// A server under TLS with one large page.
struct Pages {
  explicit Pages(const base::Limits& limits = {}) {
    Options options;
    options.guard.tls = Tls::create(made.key + made.certificate).value();
    options.routes = {{"/large", [this](const Request&) { return Reply{200, "a/b", large}; }}};
    server = Server::start({"127.0.0.1", 0}, limits, metrics, std::move(options)).value();
  }
  std::string ask(const std::string& path) const {
    return test::ask_tls(server->address(), made.certificate, "GET " + path + " HTTP/1.1\r\n\r\n");
  }
  test::KeyAndCertificate made = test::make_certificate();
  std::string large = std::string(5'000'000, 'x') + "end";
  monitoring::Metrics metrics;
  std::unique_ptr<Server> server;
};

TEST_CASE("pages are read under TLS by who believes their certificate", "[tls]") {
  const Pages pages;
  CHECK_THAT(pages.ask("/healthz"), StartsWith("HTTP/1.1 200 OK"));
  CHECK_THAT(pages.ask("/metrics"), StartsWith("HTTP/1.1 200 OK") && Contains("troupe_http"));
  const std::string large = pages.ask("/large");
  CHECK(large.size() > pages.large.size());
  CHECK(large.ends_with("xend"));
  CHECK(test::ask_tls(pages.server->address(), test::make_certificate().certificate,
                      "GET /metrics HTTP/1.1\r\n\r\n")
            .empty());
}

TEST_CASE("a request head in many records is read whole", "[tls]") {
  const Pages pages;
  CHECK_THAT(pages.ask("/metrics?" + std::string(7'000, 'q')), StartsWith("HTTP/1.1 200 OK"));
  CHECK_THAT(pages.ask("/metrics?" + std::string(20'000, 'q')), StartsWith("HTTP/1.1 431"));
}

TEST_CASE("who speaks no TLS, or begins and waits, harms nobody", "[tls]") {
  base::Limits limits;
  limits.http_request_ms = 300;
  const Pages pages(limits);
  CHECK_THAT(tests::http_get(pages.server->address(), "/metrics"),
             StartsWith("HTTP/1.1 400 Bad Request") && Contains("this port speaks HTTPS"));
  std::vector<tests::HttpPeer> slow;
  for (int i = 0; i < 5; ++i) {
    slow.emplace_back(pages.server->address());
    slow.back().send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  }
  tests::HttpPeer garbage(pages.server->address());
  garbage.send(std::string(1'000, '\x7f'));
  CHECK_THAT(garbage.receive(), !StartsWith("HTTP"));
  CHECK_THAT(pages.ask("/healthz"), StartsWith("HTTP/1.1 200 OK"));
  for (tests::HttpPeer& peer : slow) CHECK_THAT(peer.receive(), !StartsWith("HTTP/1.1 200"));
  // They could be told nothing, so they are gone at their deadline.
  CHECK_THAT(pages.ask("/metrics"), StartsWith("HTTP/1.1 200 OK") && !Contains("\"408\""));
}

TEST_CASE("who has shaken hands and asks slowly is told so", "[tls]") {
  base::Limits limits;
  limits.http_request_ms = 300;
  const Pages pages(limits);
  CHECK_THAT(test::ask_tls(pages.server->address(), pages.made.certificate, "GET /metrics HTT"),
             StartsWith("HTTP/1.1 408"));
}

TEST_CASE("records without a byte for the reader are a call each", "[tls]") {
  const test::KeyAndCertificate made = test::make_certificate();
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  {
    Channel channel(ends[0], Tls::create(made.key + made.certificate).value());
    const std::unique_ptr<SSL, decltype(&SSL_free)> peer(SSL_new(context.get()), SSL_free);
    SSL_set_fd(peer.get(), ends[1]);
    char place[16];
    for (int i = 0; i < 100 && SSL_connect(peer.get()) != 1; ++i) channel.receive(place);
    CHECK(channel.receive(place).progress == Channel::Progress::later);
    REQUIRE(channel.greeted());
    constexpr int kUpdates = 50;
    for (int i = 0; i < kUpdates; ++i) {
      REQUIRE(SSL_key_update(peer.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
      REQUIRE(SSL_do_handshake(peer.get()) == 1);
    }
    REQUIRE(SSL_write(peer.get(), "x", 1) == 1);
    int calls = 0;
    while (calls < 10 * kUpdates && channel.receive(place).progress == Channel::Progress::later) {
      ++calls;
    }
    CHECK(calls == kUpdates);
    CHECK(place[0] == 'x');
  }
  close(ends[1]);
}

TEST_CASE("an encrypted key is refused by name, and nobody is asked for its passphrase", "[tls]") {
  const test::KeyAndCertificate made = test::make_certificate();
  BIO* bio = BIO_new(BIO_s_mem());
  EVP_PKEY* key = EVP_EC_gen("P-256");
  char word[] = "word";
  PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_128_cbc(), word, 4, nullptr, nullptr);
  EVP_PKEY_free(key);
  const auto status = Tls::create(test::text_of(bio) + made.certificate).status();
  CHECK(status.code() == base::Errc::data_loss);
  CHECK_THAT(status.text(), Contains("the private key is encrypted"));
}

}  // namespace
}  // namespace troupe::http
