// SPDX-License-Identifier: Apache-2.0
// Links under TLS: the same promises, only between those whose certificates fit what they say.
#include "tests/link/cluster_support.h"
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
  Server server(quick_limits(), secret, tls_of(process_of(cluster, "b", server_end())));
  Client client(quick_limits(), tls_of(process_of(cluster, "a", worker_end())));
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
  CHECK_THAT(Meeting(main, tls_of(process_of(cluster, "a", worker_end())), "a").dial(),
             Catch::Contains("process 'a/job-1/3' of cluster 'lab' may not be agent 'a'"));
  // An agent on the coordinator's port.
  CHECK_THAT(Meeting(agent, tls_of(cluster.make(trust::Role::agent, "b")), "b").dial(),
             Catch::Contains("agent 'a' of cluster 'lab' may not be coordinator"));
}

TEST_CASE("a process of another run does not get in, whatever secret it knows", "[tls]") {
  const Cluster cluster;
  const auto secret = base::random_secret();
  LinkEnd earlier = worker_end();
  earlier.generation -= 1;
  Server server(quick_limits(), secret, tls_of(process_of(cluster, "b", server_end())));
  Client client(quick_limits(), tls_of(process_of(cluster, "a", earlier)));
  client.secret = secret;
  REQUIRE(client.dial(server.address, 0).ok());
  CHECK_THAT(client.recorder->wait_down().text(),
             Catch::Contains("process 'a/job-1/2' of cluster 'lab' may not be device server 2"));
  CHECK(server.recorder->ups == 0);
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
