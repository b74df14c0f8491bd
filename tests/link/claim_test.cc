// SPDX-License-Identifier: Apache-2.0
// A certificate against a Hello, all roles against all.
#include "link/claim.h"

#include "tests/support/catch.h"

namespace troupe::link {
namespace {

using schemas::Role;

TEST_CASE("everybody may be what the certificate says, and nothing else", "[claim]") {
  const LinkEnd coordinator{{Role::coordinator, 0}, "", "", 0};
  const LinkEnd agent{{Role::agent, 0}, "a", "", 0};
  const LinkEnd other_agent{{Role::agent, 0}, "b", "", 0};
  const LinkEnd person{{Role::agent, 0}, std::string(kCommandName), "", 0};
  const LinkEnd server{{Role::parameter_server, 1}, "a", "mnist", 3};
  const LinkEnd device{{Role::device_server, 0}, "a", "mnist", 3};
  const LinkEnd later{{Role::parameter_server, 1}, "a", "mnist", 4};
  const LinkEnd foreign{{Role::parameter_server, 1}, "a", "a/mnist", 3};
  const std::vector<LinkEnd> ends = {coordinator, agent,  other_agent, person,
                                     server,      device, later,       foreign};
  const auto allowed = [&](trust::Role role, const std::string& name) {
    std::string text;
    for (const LinkEnd& end : ends) {
      text += check_claim({"lab", role, name}, end).ok() ? '1' : '0';
    }
    return text;
  };
  CHECK(allowed(trust::Role::coordinator, "main") == "10000000");
  CHECK(allowed(trust::Role::agent, "a") == "01000000");
  CHECK(allowed(trust::Role::agent, "b") == "00100000");
  CHECK(allowed(trust::Role::person, "ann") == "00010000");
  CHECK(allowed(trust::Role::process, "a/mnist/3") == "00001100");
  CHECK(allowed(trust::Role::process, "a/mnist/4") == "00000010");
  CHECK(allowed(trust::Role::process, "a/x/3") == "00000000");
  CHECK(allowed(trust::Role::process, "b/mnist/3") == "00000000");  // another machine's process
  CHECK(allowed(trust::Role::authority, "lab") == "00000000");
  CHECK(check_claim({"lab", trust::Role::agent, "a"}, server).text() ==
        "[link] agent 'a' of cluster 'lab' may not be parameter server 1 (a) of job 'mnist' "
        "generation 3");
}

}  // namespace
}  // namespace troupe::link
