// SPDX-License-Identifier: Apache-2.0
// A link is dialed anew for a certificate that its peer believes, and for no other one.
#include "cluster/certificate_trial.h"

#include <thread>

#include "tests/link/cluster_support.h"
#include "tests/link/link_support.h"

namespace troupe::cluster::test {
using namespace link;
using namespace link::test;
namespace {

const LinkEnd kCoordinator{{Role::coordinator, 0}, "", "", 0};

/// An agent that is linked with a coordinator, and its certificate.
struct Linked {
  Linked()
      : first(cluster.make(trust::Role::agent, "a")),
        coordinator(quick_limits(), std::nullopt,
                    tls_of(cluster.make(trust::Role::coordinator, "main")), kCoordinator),
        agent(quick_limits(), tls_of(first)) {
    agent.self = {{Role::agent, 0}, "a", "", 0};
    agent.peer = kCoordinator;
    REQUIRE(agent.dial(coordinator.address, 0).ok());
    REQUIRE(agent.recorder->wait_up());
  }
  DialOptions dial() const {
    DialOptions options;
    options.address = coordinator.address;
    options.self = agent.self;
    options.peer = agent.peer;
    return options;
  }
  /// The serial number of what new connections show from now on.
  std::string renew(const trust::Credentials& credentials) {
    agent.links.renew(tls_of(credentials));
    return credentials.info.serial;
  }
  const Cluster cluster;
  const trust::Credentials first;
  Server coordinator;
  Client agent;
};

/// Looks until nothing is being tried.
void find_out(CertificateTrial& trial, const std::string& serial, std::uint64_t now_ms) {
  const auto late = std::chrono::steady_clock::now() + kWait;
  do {
    trial.look(serial, now_ms);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(std::chrono::steady_clock::now() < late);
  } while (trial.trying());
}

TEST_CASE("a certificate that the peer believes is shown over the link, once", "[tls]") {
  Linked linked;
  CertificateTrial trial(linked.agent.links, linked.dial(), linked.first.info.serial);
  trial.look(linked.first.info.serial, 0);
  CHECK_FALSE(trial.trying());
  const std::string serial = linked.renew(linked.cluster.make(trust::Role::agent, "a"));
  find_out(trial, serial, 0);
  Recorder& seen = *linked.agent.recorder;
  REQUIRE(seen.wait([&] { return seen.resumes == 1; }));
  trial.look(serial, 0);
  CHECK_FALSE(trial.trying());
  CHECK(seen.cuts.size() == 1);
  CHECK(seen.downs.empty());
}

TEST_CASE("a link is not cut for a certificate that brings no other one", "[tls]") {
  Linked linked;
  CertificateTrial trial(linked.agent.links, linked.dial(), linked.first.info.serial);
  // The authority is replaced, and the coordinator has still a certificate of the one before.
  const Cluster other;
  const std::string foreign = linked.renew(other.make(trust::Role::agent, "a"));
  find_out(trial, foreign, 0);
  trial.look(foreign, CertificateTrial::kPauseMs - 1);
  CHECK_FALSE(trial.trying());
  find_out(trial, foreign, CertificateTrial::kPauseMs);
  Recorder& seen = *linked.agent.recorder;
  CHECK(seen.cuts.empty());
  CHECK(seen.downs.empty());
  // Another one is tried at once.
  find_out(trial, linked.renew(linked.cluster.make(trust::Role::agent, "a")),
           CertificateTrial::kPauseMs + 1);
  REQUIRE(seen.wait([&] { return seen.resumes == 1; }));
  CHECK(seen.downs.empty());
}

TEST_CASE("what was found out of a certificate is not taken for that of a newer one", "[tls]") {
  Linked linked;
  CertificateTrial trial(linked.agent.links, linked.dial(), linked.first.info.serial);
  const std::string good = linked.renew(linked.cluster.make(trust::Role::agent, "a"));
  trial.look(good, 0);
  REQUIRE(trial.trying());
  const Cluster other;
  find_out(trial, linked.renew(other.make(trust::Role::agent, "a")), 0);
  CHECK(linked.agent.recorder->cuts.empty());
  find_out(trial, linked.renew(linked.cluster.make(trust::Role::agent, "a")), 1);
  Recorder& seen = *linked.agent.recorder;
  REQUIRE(seen.wait([&] { return seen.resumes == 1; }));
  CHECK(seen.downs.empty());
}

TEST_CASE("a trial ends where its links have ended", "[tls]") {
  Linked linked;
  CertificateTrial trial(linked.agent.links, linked.dial(), linked.first.info.serial);
  const std::string serial = linked.renew(linked.cluster.make(trust::Role::agent, "a"));
  linked.agent.links.stop();
  find_out(trial, serial, 0);
  CHECK(linked.agent.recorder->resumes == 0);
}

}  // namespace
}  // namespace troupe::cluster::test
