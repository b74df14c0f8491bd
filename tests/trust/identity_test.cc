// SPDX-License-Identifier: Apache-2.0
// Identities and who may sign for whom.
#include "trust/identity.h"

#include "tests/support/catch.h"

namespace troupe::trust {
namespace {

const Identity kAuthority{"lab", Role::authority, "lab"};
const Identity kCoordinator{"lab", Role::coordinator, "main"};
const Identity kAgent{"lab", Role::agent, "a"};
const Identity kProcess{"lab", Role::process, "a/mnist/3"};

TEST_CASE("an identity is a URI and back") {
  CHECK(kAgent.uri() == "troupe://lab/agent/a");
  CHECK(kProcess.uri() == "troupe://lab/process/a/mnist/3");
  CHECK(kAgent.to_string() == "agent 'a' of cluster 'lab'");
  for (const Identity& each : {kAuthority, kCoordinator, kAgent, kProcess}) {
    CHECK(parse_identity(each.uri()).value() == each);
  }
}

TEST_CASE("what is no identity is refused with its text") {
  for (const std::string text :
       {"", "troupe://", "troupe://lab", "troupe://lab/agent", "troupe://lab/agent/",
        "troupe://lab/king/a", "troupe:///agent/a", "http://lab/agent/a", "troupe://lab/agent/a b",
        "troupe://lab/agent/a/b", "troupe://lab/process/a", "troupe://lab/process/a//3",
        "troupe://lab/process/a/b/c/d", "troupe://l\nb/agent/a"}) {
    const auto refused = parse_identity(text);
    CHECK(refused.status().code() == base::Errc::invalid_argument);
    CHECK_THAT(refused.status().text(), Catch::StartsWith("'" + text + "'"));
  }
}

TEST_CASE("an authority signs machines, an agent its own processes, nobody else anybody") {
  CHECK(check_issuer(kAuthority, kCoordinator).ok());
  CHECK(check_issuer(kAuthority, kAgent).ok());
  CHECK(check_issuer(kAgent, kProcess).ok());
  const auto refused = [](const Identity& issuer, const Identity& subject) {
    return check_issuer(issuer, subject).code() == base::Errc::permission_denied;
  };
  CHECK(refused(kAuthority, kProcess));
  CHECK(refused(kAuthority, kAuthority));
  CHECK(refused(kAgent, kAgent));
  CHECK(refused(kAgent, kCoordinator));
  CHECK(refused(kAgent, {"lab", Role::process, "b/mnist/3"}));
  CHECK(refused(kAgent, {"lab", Role::process, "ab/mnist/3"}));
  CHECK(refused(kAgent, {"other", Role::process, "a/mnist/3"}));
  CHECK(refused(kCoordinator, kAgent));
  CHECK(refused(kProcess, kProcess));
  CHECK(refused({"other", Role::authority, "other"}, kAgent));
}

}  // namespace
}  // namespace troupe::trust
