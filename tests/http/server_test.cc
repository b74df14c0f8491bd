// SPDX-License-Identifier: Apache-2.0
// The endpoint on real loopback sockets: pages, slow and garbage peers, floods, ports in use,
// waiting for a scrape.
#include "http/server.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/http_client.h"

namespace troupe::http {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;

using Peer = tests::HttpPeer;

std::string get(const Server& server, const std::string& path) {
  return tests::http_get(server.address(), path);
}

base::Address loopback() {
  return {"127.0.0.1", 0};
}

std::unique_ptr<Server> start(monitoring::Metrics& metrics, base::Limits limits = {},
                              Routes routes = {}) {
  return Server::start(loopback(), limits, metrics, {std::move(routes), {}, {}}).value();
}

TEST_CASE("pages answer with their type and are counted", "[http]") {
  monitoring::Metrics metrics;
  const auto server =
      start(metrics, {}, {{"/sd/targets", [](const Request& request) {
                             return Reply{200, "application/json", request.query.at("a")};
                           }}});
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200 OK") && Contains("\r\n\r\nok\n"));
  CHECK_THAT(get(*server, "/sd/targets?a=[1]"),
             Contains("Content-Type: application/json") && Contains("\r\n\r\n[1]"));
  CHECK_THAT(get(*server, "/nothing"), StartsWith("HTTP/1.1 404") && Contains("'/nothing'"));
  const std::string text = get(*server, "/metrics");
  CHECK_THAT(text, StartsWith("HTTP/1.1 200 OK") &&
                       Contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
  CHECK_THAT(text, Contains("troupe_http_requests_total{route=\"/healthz\",code=\"200\"} 1\n"));
  CHECK_THAT(text, Contains("troupe_http_requests_total{route=\"other\",code=\"404\"} 1\n"));
}

TEST_CASE("a handler that fails gives 500 and the next request is served", "[http]") {
  monitoring::Metrics metrics;
  const auto server = start(metrics, {}, {{"/bad", [](const Request& request) {
                                             return Reply{200, "", request.query.at("no")};
                                           }}});
  CHECK_THAT(get(*server, "/bad"), StartsWith("HTTP/1.1 500"));
  CHECK_THAT(get(*server, "/metrics"), StartsWith("HTTP/1.1 200"));
}

TEST_CASE("garbage is refused and only its own connection suffers", "[http]") {
  monitoring::Metrics metrics;
  const auto server = start(metrics);
  const std::vector<std::string> garbage = {
      std::string("\x16\x03\x01\x02\x00\x01\0\xff\r\n\r\n", 12),
      "GET\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "\r\n\r\n",
      "POST /metrics HTTP/1.1\r\nContent-Length: x\r\n\r\n",
      "GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "GET /metrics HTTP/1.1\r\nRange: bytes=9-1,-,x\r\n\r\n",
      "GET /%zz%00 HTTP/1.1\r\n\r\n"};
  for (const std::string& text : garbage) {
    INFO(text);
    Peer peer(server->address());
    peer.send(text);
    CHECK_THAT(peer.receive(), StartsWith("HTTP/1.1 "));
    CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  }
  Peer large(server->address());
  large.send("GET /metrics HTTP/1.1\r\nX: " + std::string(10'000, 'x'));
  CHECK_THAT(large.receive(), StartsWith("HTTP/1.1 431"));
}

TEST_CASE("slow peers are answered 408 and never block /healthz", "[http]") {
  monitoring::Metrics metrics;
  base::Limits limits;
  limits.http_request_ms = 300;
  const auto server = start(metrics, limits);
  std::vector<Peer> slow;
  for (std::uint64_t i = 0; i < limits.http_connections_max; ++i) {
    slow.emplace_back(server->address());
    slow.back().send("GET /metr");
  }
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  CHECK_THAT(get(*server, "/metrics"), StartsWith("HTTP/1.1 200"));
  slow.back().send("i");  // a byte now and then buys no time
  CHECK_THAT(slow.back().receive(), StartsWith("HTTP/1.1 408"));
}

TEST_CASE("a stuck handler does not block /healthz", "[http]") {
  monitoring::Metrics metrics;
  std::promise<void> release;
  auto released = release.get_future().share();
  const auto server = start(metrics, {}, {{"/stuck", [released](const Request&) {
                                             released.wait();
                                             return Reply{200, "text/plain", "at last"};
                                           }}});
  Peer waiting(server->address());
  waiting.send("GET /stuck HTTP/1.1\r\n\r\n");
  std::vector<Peer> behind;
  for (int i = 0; i < 10; ++i) {
    behind.emplace_back(server->address());
    behind.back().send("GET /metrics HTTP/1.1\r\n\r\n");
  }
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  release.set_value();
  CHECK_THAT(waiting.receive(), Contains("at last"));
  for (Peer& peer : behind) CHECK_THAT(peer.receive(), StartsWith("HTTP/1.1 200"));
}

TEST_CASE("who says nothing gives way before who asks, and nobody who is answered", "[http]") {
  monitoring::Metrics metrics;
  base::Limits limits;
  limits.http_connections_max = 8;
  limits.http_request_ms = 60'000;
  std::promise<void> asked;
  std::promise<void> release;
  auto released = release.get_future().share();
  const auto server = start(metrics, limits, {{"/slow", [&asked, released](const Request&) {
                                                 asked.set_value();
                                                 released.wait();
                                                 return Reply{200, "text/plain", "at last"};
                                               }}});
  Peer answered(server->address());
  answered.send("GET /slow HTTP/1.1\r\n\r\n");
  asked.get_future().wait();
  Peer asking(server->address());
  asking.send("GET /met");
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));  // so the half is read
  std::vector<Peer> silent;
  for (int i = 0; i < 100; ++i) silent.emplace_back(server->address());
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  release.set_value();
  CHECK_THAT(answered.receive(), Contains("at last"));
  asking.send("rics HTTP/1.1\r\n\r\n");
  CHECK_THAT(asking.receive(), StartsWith("HTTP/1.1 200"));
  CHECK(silent.front().receive().empty());
}

/// A server of eight connections whose page /slow is answered once it is released.
struct SlowServer {
  monitoring::Metrics metrics;
  std::promise<void> release;
  std::unique_ptr<Server> server;

  SlowServer() {
    base::Limits limits;
    limits.http_connections_max = 8;
    const auto page = [released = release.get_future().share()](const Request&) {
      released.wait();
      return Reply{200, "text/plain", "at last"};
    };
    server = start(metrics, limits, {{"/slow", page}});
  }
};

TEST_CASE("places are left for those who ask while all the others wait for answers", "[http]") {
  SlowServer slow;
  const auto& server = slow.server;
  std::vector<Peer> waiting;
  for (int i = 0; i < 6; ++i) {
    waiting.emplace_back(server->address());
    waiting.back().send("GET /slow HTTP/1.1\r\n\r\n");
    CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  }
  CHECK_THAT(get(*server, "/metrics"), StartsWith("HTTP/1.1 503"));
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  slow.release.set_value();
  for (Peer& peer : waiting) CHECK_THAT(peer.receive(), Contains("at last"));
}

TEST_CASE("requests of those who have gone take no place", "[http]") {
  SlowServer slow;
  const auto& server = slow.server;
  for (int i = 0; i < 20; ++i) {
    {
      Peer gone(server->address());
      gone.send("GET /slow HTTP/1.1\r\n\r\n");
      CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));  // so it has been read
      const linger reset{1, 0};
      setsockopt(gone.descriptor(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  }
  Peer waiting(server->address());
  waiting.send("GET /metrics HTTP/1.1\r\n\r\n");
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  slow.release.set_value();
  CHECK_THAT(waiting.receive(), StartsWith("HTTP/1.1 200"));
}

TEST_CASE("a host that asks and does not read keeps no other from the pages", "[http]") {
  monitoring::Metrics metrics;
  base::Limits limits;
  limits.http_connections_max = 8;
  limits.http_request_ms = 60'000;
  const std::string page(8'000'000, 'x');
  std::atomic<int> asked{0};
  const auto server = start(metrics, limits, {{"/large", [&](const Request&) {
                                                 ++asked;
                                                 return Reply{200, "x/y", page};
                                               }}});
  std::vector<Peer> deaf;
  for (int i = 0; i < 8; ++i) {
    deaf.emplace_back(server->address(), "127.0.0.2");
    deaf.back().send("GET /large HTTP/1.1\r\n\r\n");
    while (asked <= i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Peer asking(server->address());
  asking.send("GET /metrics HTTP/1.1\r\n\r\n");
  CHECK_THAT(asking.receive(), StartsWith("HTTP/1.1 200"));
  CHECK(deaf.front().receive().size() < page.size());  // it has given way
  CHECK(deaf.back().receive().size() > page.size());
}

TEST_CASE("a host that floods and says nothing keeps no other from the pages", "[http]") {
  monitoring::Metrics metrics;
  const auto server = start(metrics);
  std::atomic<bool> stop{false};
  std::thread flood([&] {
    std::deque<Peer> silent;
    while (!stop) {
      silent.emplace_back(server->address(), "127.0.0.2");
      if (silent.size() > 300) silent.pop_front();
    }
  });
  int served = 0;
  for (int i = 0; i < 100; ++i) {
    served += get(*server, "/metrics").starts_with("HTTP/1.1 200") ? 1 : 0;
  }
  stop = true;
  flood.join();
  CHECK(served == 100);
}

TEST_CASE("a peer that reads nothing is let go and large answers arrive whole", "[http]") {
  monitoring::Metrics metrics;
  base::Limits limits;
  limits.http_request_ms = 500;
  const std::string page(30'000'000, 'x');
  const auto server = start(metrics, limits, {{"/large", [&](const Request&) {
                                                 return Reply{200, "x/y", page};
                                               }}});
  Peer deaf(server->address());
  deaf.send("GET /large HTTP/1.1\r\n\r\n");
  CHECK_THAT(get(*server, "/healthz"), StartsWith("HTTP/1.1 200"));
  CHECK(get(*server, "/large").size() > page.size());
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  CHECK(deaf.receive().size() < page.size());
}

TEST_CASE("answers that nobody reads have one bound together", "[http]") {
  monitoring::Metrics metrics;
  const std::string page(30'000'000, 'x');
  base::Limits limits;
  limits.http_request_ms = 60'000;
  std::atomic<int> asked{0};
  const auto server = start(metrics, limits, {{"/large", [&](const Request&) {
                                                 ++asked;
                                                 return Reply{200, "x/y", page};
                                               }}});
  std::vector<Peer> deaf;
  for (int i = 0; i < 3; ++i) {
    deaf.emplace_back(server->address());
    deaf.back().send("GET /large HTTP/1.1\r\n\r\n");
    while (asked <= i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // The third has no room while two wait.
  CHECK_THAT(deaf.back().receive(), StartsWith("HTTP/1.1 503"));
  CHECK_THAT(get(*server, "/metrics"), StartsWith("HTTP/1.1 200"));
  CHECK(deaf.front().receive().size() > page.size());
}

TEST_CASE("a port in use is one clear error", "[http]") {
  monitoring::Metrics metrics;
  const auto server = start(metrics);
  const auto second = Server::start(server->address(), {}, metrics);
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().to_string() == "resource_exhausted: cannot serve HTTP on " +
                                           server->address().to_string() +
                                           ": Address already in use");
}

TEST_CASE("a scrape is awaited whole, and one that began before does not count", "[http]") {
  monitoring::Metrics metrics;
  const auto server = start(metrics);
  CHECK_THAT(get(*server, "/metrics"), StartsWith("HTTP/1.1 200"));
  const auto never = [] { return false; };
  CHECK(server->wait_scraped(50, never) == Server::Scraped::late);
  auto scraped =
      std::async(std::launch::async, [&] { return server->wait_scraped(10'000, never); });
  while (scraped.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    CHECK_THAT(get(*server, "/metrics"), StartsWith("HTTP/1.1 200"));
  }
  CHECK(scraped.get() == Server::Scraped::yes);
}

TEST_CASE("who gets no figures has not scraped", "[http]") {
  monitoring::Metrics metrics;
  const auto server = start(metrics);
  std::atomic<bool> waits = false, asked = false;
  auto scraped = std::async(std::launch::async, [&] {
    return server->wait_scraped(60'000, [&] {
      waits = true;
      return asked.load();
    });
  });
  while (!waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (const char* const method : {"HEAD", "POST", "OPTIONS"}) {
    Peer peer(server->address());
    peer.send(std::string(method) + " /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK_THAT(peer.receive(), StartsWith("HTTP/1.1 "));
    CHECK(scraped.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready);
  }
  asked = true;
  CHECK(scraped.get() == Server::Scraped::given_up);
}

TEST_CASE("a wait for a scrape can be given up", "[http]") {
  monitoring::Metrics metrics;
  const auto server = start(metrics);
  int asked = 0;
  const auto scraped = server->wait_scraped(60'000, [&] { return ++asked == 3; });
  CHECK(scraped == Server::Scraped::given_up);
}

TEST_CASE("stopping ends with peers still connected", "[http]") {
  monitoring::Metrics metrics;
  auto server = start(metrics);
  Peer idle(server->address());
  Peer half(server->address());
  half.send("GET /met");
  server.reset();
  CHECK(half.receive().empty());
}

}  // namespace
}  // namespace troupe::http
