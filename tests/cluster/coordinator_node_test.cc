// SPDX-License-Identifier: Apache-2.0
// A coordinator's program from its start on. What it does with agents and jobs is tried with whole
// processes: tests/integration.
#include "cluster/coordinator_node.h"

#include <filesystem>

#include "cluster/access_files.h"
#include "cluster/job_client.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/authority.h"

namespace troupe::cluster {
namespace {

namespace fs = std::filesystem;

constexpr trust::Validity kLong{0, 4'000'000'000};

/// A coordinator on the loopback that ends when `ready` has run.
CoordinatorNodeOptions options_of(const fs::path& state,
                                  std::function<void(const std::string& address)> ready) {
  CoordinatorNodeOptions options;
  options.listen = "127.0.0.1:0";
  options.pages = {"127.0.0.1", 0};
  options.state_folder = state.string();
  options.stop = [] { return true; };
  options.find_start = [](const control::FindStart&) { return control::StartFound(); };
  options.ready = [ready = std::move(ready)](const std::string& address, const std::string&) {
    ready(address);
  };
  return options;
}

TEST_CASE("a coordinator knows what is revoked before it takes its first connection") {
  const TestFolder folder("coordinator-node-denied");
  auto authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const fs::path file = folder.path() / "main.pem";
  const auto main = authority.issue(trust::Role::coordinator, "main", kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, main).ok());
  const auto person = authority.issue(trust::Role::person, "ann", kLong, kLong.from).value();
  REQUIRE(authority.revoke(trust::Role::person, "ann", 1'000).ok());
  const fs::path state = folder.path() / "state";
  fs::create_directory(state);
  fs::copy_file(folder.path() / "ca" / "denied.pem", state / AccessFiles::kDenied);

  base::Status told;
  auto options = options_of(state, [&](const std::string& address) {
    JobClientOptions ask;
    ask.address = address;
    ask.tls = link::Tls::create(person).value();
    told = JobClient::connect(std::move(ask)).value()->list().status();
  });
  options.identity = IdentityFile::open(file, trust::Role::coordinator).value();
  monitoring::Metrics metrics;
  REQUIRE(run_coordinator(options, metrics).ok());
  CHECK_THAT(told.text(), Catch::Contains("revoked"));
}

}  // namespace
}  // namespace troupe::cluster
