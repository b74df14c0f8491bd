// SPDX-License-Identifier: Apache-2.0
// Links by host names: all addresses of a name, names that fail, hang or change, and where the
// connections of one link go. Names are what each case says; addresses are the loopback's.
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "tests/link/cluster_support.h"
#include "tests/link/link_support.h"

namespace troupe::link::test {
namespace {

using base::HostNumbers;

/// Answers with what it holds, and counts.
class Names {
 public:
  explicit Names(Result<HostNumbers> first) : now_(std::move(first)) {}
  void become(Result<HostNumbers> next) {
    const std::lock_guard lock(mutex_);
    now_ = std::move(next);
  }
  int asked() const { return asked_; }
  static base::Resolver::LookUp of(const std::shared_ptr<Names>& names) {
    return [names](const std::string&) {
      names->asked_ += 1;
      const std::lock_guard lock(names->mutex_);
      return names->now_;
    };
  }

 private:
  std::mutex mutex_;
  Result<HostNumbers> now_;
  std::atomic<int> asked_{0};
};

std::shared_ptr<const Tls> process_tls(const Cluster& cluster, const std::string& agent) {
  const trust::Credentials above = cluster.make(trust::Role::agent, agent);
  const LinkEnd end = server_end();
  const auto who = trust::process_identity(above.info.identity, end.job, end.generation);
  return tls_of(trust::delegate(above, who, kLong).value());
}

/// Two processes of a job; the dialing one knows the names.
struct Named {
  explicit Named(Result<HostNumbers> first, const std::string& at = "127.0.0.1:0",
                 const base::Limits& limits = quick_limits())
      : names(std::make_shared<Names>(std::move(first))),
        server(limits, std::nullopt, process_tls(cluster, "beta"), server_end(), at,
               Names::of(names)),
        client(limits, process_tls(cluster, "alpha"), Names::of(names)) {}
  std::string port() const { return std::to_string(base::parse_address(server.address)->port); }

  Cluster cluster;
  std::shared_ptr<Names> names;
  Server server;
  Client client;
};

TEST_CASE("all addresses of a name are tried in their order", "[names]") {
  Named named(HostNumbers{"127.9.9.9", "::1", "127.0.0.1"});
  REQUIRE(named.client.dial("node1:" + named.port(), 2).ok());
  REQUIRE(named.client.recorder->wait_up());
  CHECK(named.client.link->address() == "node1:" + named.port());
  REQUIRE(named.client.link->send(push_of(1, 7, 1'000)).ok());
  CHECK(named.server.recorder->wait_envelopes(1));
}

TEST_CASE("a dial by name that finds nobody says what each address said", "[names]") {
  Named named(HostNumbers{"127.9.9.9", "127.9.9.8"});
  REQUIRE(named.client.dial("node1:" + named.port()).ok());
  CHECK_THAT(named.client.recorder->wait_down().text(),
             Catch::Contains("parameter server 1 (beta) at node1:" + named.port() +
                             ": 127.9.9.9: Connection refused, 127.9.9.8: Connection refused"));
}

TEST_CASE("a name that is not known is said with the resolver's words", "[names]") {
  Named named(base::error(Errc::unavailable, "looking up 'node1': no such name"));
  REQUIRE(named.client.dial("node1:1").ok());
  CHECK_THAT(named.client.recorder->wait_down().text(),
             Catch::EndsWith("at node1:1: looking up 'node1': no such name"));
}

TEST_CASE("a look-up that hangs ends the attempt, and delays no other link", "[names]") {
  base::Limits limits = quick_limits();
  limits.resolve_ms = 50;
  const auto hang = std::make_shared<std::promise<void>>();
  const auto end = std::make_shared<std::shared_future<void>>(hang->get_future());
  const Cluster cluster;
  Client client(limits, process_tls(cluster, "alpha"), [end](const std::string& host) {
    if (host == "node1") end->wait();
    return Result<HostNumbers>(HostNumbers{"127.0.0.1"});
  });
  Server server(limits, std::nullopt, process_tls(cluster, "beta"));
  REQUIRE(client.dial("node1:1").ok());
  CHECK_THAT(client.recorder->wait_down().text(),
             Catch::EndsWith("at node1:1: looking up 'node1': no answer within 50 ms"));
  client.recorder = std::make_shared<Recorder>();
  REQUIRE(client.dial("node2:" + std::to_string(base::parse_address(server.address)->port)).ok());
  CHECK(client.recorder->wait_up());
  hang->set_value();
}

TEST_CASE("each new attempt looks the name up again", "[names]") {
  Named named(base::error(Errc::unavailable, "looking up 'node1': try again"));
  REQUIRE(named.client.dial("node1:" + named.port(), 1, 20'000).ok());
  while (named.names->asked() < 2) std::this_thread::yield();
  named.names->become(HostNumbers{"127.0.0.1"});
  CHECK(named.client.recorder->wait_up());
}

TEST_CASE("a cut link heals by the last good answer, and by a new one", "[names]") {
  Named named(HostNumbers{"127.0.0.1"});
  const bool lost = GENERATE(true, false);
  std::atomic<int> connections{0};
  Proxy proxy(named.server.address, [&](int number) {
    connections = number + 1;
    return number == 0 ? Proxy::Blow{100'000, false} : Proxy::Blow{};
  });
  const std::string port = std::to_string(base::parse_address(proxy.address())->port);
  REQUIRE(named.client.dial("node1:" + port, 0).ok());
  REQUIRE(named.client.recorder->wait_up());
  named.names->become(lost ? Result<HostNumbers>(base::error(Errc::unavailable, "gone"))
                           : HostNumbers{"127.9.9.9", "127.0.0.1"});
  const int asked = named.names->asked();
  REQUIRE(named.client.link->send(push_of(1, 7, 200'000)).ok());
  CHECK(named.server.recorder->wait_envelopes(1));
  CHECK(connections == 2);
  CHECK(named.names->asked() == asked + 1);
}

TEST_CASE("the data connections of a link go where its control connection is", "[names]") {
  // Two processes on one port of two addresses behind one name, as DNS shares load.
  const Cluster cluster;
  Server server(quick_limits(), std::nullopt, process_tls(cluster, "beta"), server_end(),
                "127.0.0.2:0");
  const std::string port = std::to_string(base::parse_address(server.address)->port);
  Server other(quick_limits(), std::nullopt, process_tls(cluster, "beta"), server_end(),
               "127.0.0.1:" + port);
  const auto asked = std::make_shared<std::atomic<int>>(0);
  Client client(quick_limits(), process_tls(cluster, "alpha"), [asked](const std::string&) {
    const HostNumbers first{"127.0.0.2", "127.0.0.1"};
    const HostNumbers next{"127.0.0.1", "127.0.0.2"};
    return Result<HostNumbers>((*asked)++ == 0 ? first : next);
  });
  REQUIRE(client.dial("node1:" + port, 3).ok());
  REQUIRE(client.recorder->wait_up());
  for (std::uint32_t slice = 0; slice < 20; ++slice) {
    REQUIRE(client.link->send(push_of(slice, 7, 100)).ok());
  }
  CHECK(server.recorder->wait_envelopes(20));
  CHECK(other.recorder->ups == 0);
  CHECK(*asked == 1);
}

TEST_CASE("a listener by name has all its addresses on one port", "[names]") {
  Named named(HostNumbers{"127.0.0.2", "127.0.0.1", "192.0.2.1"}, "node1:0");
  CHECK(named.server.address == "node1:" + named.port());
  for (const std::string host : {"127.0.0.1", "127.0.0.2"}) {
    Client client(quick_limits(), process_tls(named.cluster, "alpha"));
    REQUIRE(client.dial(host + ":" + named.port(), 0).ok());
    CHECK(client.recorder->wait_up());
  }
}

TEST_CASE("without TLS a name is off the loopback, whatever it means", "[names]") {
  Client client(quick_limits(), nullptr, Names::of(std::make_shared<Names>(HostNumbers{"::1"})));
  const Status status = client.dial("node1:7700");
  CHECK(status.code() == Errc::permission_denied);
  CHECK_THAT(status.text(), Catch::StartsWith("'node1:7700' is not a loopback address"));
}

}  // namespace
}  // namespace troupe::link::test
