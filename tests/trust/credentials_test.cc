// SPDX-License-Identifier: Apache-2.0
// Credentials survive their file, and what is missing or foreign is named.
#include "trust/credentials.h"

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/authority.h"

namespace troupe::trust {
namespace {

constexpr Validity kYear{1'700'000'000, 1'731'536'000};

Credentials agent_of(const std::filesystem::path& folder) {
  auto authority = Authority::create(folder, "lab", kYear).value();
  return authority.issue(Role::agent, "a", kYear, kYear.from).value();
}

TEST_CASE("credentials are one file that only their owner reads") {
  const TestFolder folder("credentials-test");
  const Credentials made = agent_of(folder.path() / "ca");
  const auto file = folder.path() / "a.pem";
  REQUIRE(write_credentials(file, made).ok());
  CHECK((std::filesystem::status(file).permissions() & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  const Credentials read = read_credentials(file).value();
  CHECK(read.to_pem() == made.to_pem());
  CHECK(read.info.identity == Identity{"lab", Role::agent, "a"});
  CHECK(read.deny_list == made.deny_list);
  std::filesystem::permissions(file, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  const auto refused = read_credentials(file).status();
  CHECK(refused.code() == base::Errc::permission_denied);
  CHECK_THAT(refused.text(), Catch::Contains("mode 640"));
}

TEST_CASE("an agent's credentials make those of its processes") {
  const TestFolder folder("credentials-test-delegate");
  const Credentials agent = agent_of(folder.path());
  const Identity who{"lab", Role::process, "a/mnist/2"};
  const Credentials process = delegate(agent, who, kYear).value();
  const Credentials read = parse_credentials(process.to_pem()).value();
  CHECK(read.info.identity == who);
  CHECK(read.above == agent.own.certificate);
  CHECK(read.authority == agent.authority);
  CHECK(delegate(process, who, kYear).status().code() == base::Errc::permission_denied);
}

TEST_CASE("credentials without a part, or of another chain, are refused with what is wrong") {
  const TestFolder folder("credentials-test-bad");
  const Credentials agent = agent_of(folder.path() / "1");
  const Credentials other = agent_of(folder.path() / "2");
  const auto refusal = [](const std::string& pem) {
    const auto parsed = parse_credentials(pem);
    return parsed.ok() ? "" : parsed.status().text();
  };
  CHECK(refusal(agent.to_pem()).empty());
  CHECK(refusal("") == "no private key");
  CHECK_THAT(refusal(agent.own.key), Catch::StartsWith("0 certificates"));
  CHECK_THAT(refusal(agent.own.key + agent.own.certificate), Catch::StartsWith("1 certificates"));
  CHECK_THAT(refusal(agent.own.key + agent.own.certificate + agent.own.certificate),
             Catch::Contains("may not sign"));
  CHECK_THAT(refusal(other.own.key + agent.own.certificate + agent.authority),
             Catch::Contains("another certificate's"));
  CHECK_THAT(refusal(agent.own.key + agent.to_pem()), Catch::Contains("'PRIVATE KEY' too many"));
  CHECK(refusal(agent.to_pem().substr(0, agent.to_pem().size() - 20)) == "a PEM block is cut off");
}

TEST_CASE("credentials take newer lists of what is revoked, of their own authority alone") {
  const TestFolder folder("credentials-test-deny");
  auto authority = Authority::create(folder.path() / "ca", "lab", kYear).value();
  Credentials made = authority.issue(Role::agent, "a", kYear, kYear.from).value();
  const std::string first = made.deny_list;
  REQUIRE(authority.revoke(Role::agent, "a", kYear.from).ok());
  CHECK(take_deny_list(made, authority.deny_list()).value());
  CHECK_FALSE(take_deny_list(made, authority.deny_list()).value());
  CHECK_FALSE(take_deny_list(made, first).value());
  CHECK(made.deny_list == authority.deny_list());
  auto other = Authority::create(folder.path() / "ca2", "lab", kYear).value();
  CHECK(take_deny_list(made, other.deny_list()).status().code() == base::Errc::permission_denied);
  CHECK(take_deny_list(made, "x").status().code() == base::Errc::data_loss);
  CHECK(made.deny_list == authority.deny_list());
}

}  // namespace
}  // namespace troupe::trust
