// SPDX-License-Identifier: Apache-2.0
// Pages under TLS: large ones arrive whole, strangers and slow peers disturb nobody.
#include "http/tls.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "http/server.h"
#include "tests/http/guarded_support.h"

namespace troupe::http {
namespace {

using Catch::Matchers::Contains;
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
  CHECK_THAT(pages.ask("/metrics"), StartsWith("HTTP/1.1 200 OK"));
}

}  // namespace
}  // namespace troupe::http
