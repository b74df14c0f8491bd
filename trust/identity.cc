// SPDX-License-Identifier: Apache-2.0
// Identities as URIs.
#include "trust/identity.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/name.h"

namespace troupe::trust {
namespace {

using base::Errc;
using base::Status;

constexpr std::array<std::string_view, 5> kRoles = {"authority", "coordinator", "agent", "process",
                                                    "person"};
constexpr std::string_view kScheme = "troupe://";

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

std::string_view role_name(Role role) {
  return kRoles[static_cast<std::size_t>(role)];
}

std::string Identity::uri() const {
  return fmt::format("{}{}/{}/{}", kScheme, cluster, role_name(role), name);
}

std::string Identity::to_string() const {
  return fmt::format("{} '{}' of cluster '{}'", role_name(role), name, cluster);
}

Status check_identity(const Identity& identity) {
  if (!base::plain_name(identity.cluster)) {
    return base::error(Errc::invalid_argument, "cluster '{}': a name is {}", identity.cluster,
                       base::kPlainNameRule);
  }
  const std::vector<std::string> parts = split(identity.name);
  const std::size_t wanted = identity.role == Role::process ? 3 : 1;
  if (parts.size() == wanted && std::all_of(parts.begin(), parts.end(), base::plain_name)) {
    return {};
  }
  return base::error(Errc::invalid_argument, "{} '{}': a name is {}", role_name(identity.role),
                     identity.name, base::kPlainNameRule);
}

base::Result<Identity> parse_identity(std::string_view uri) {
  const auto refused = [&] {
    return base::error(Errc::invalid_argument, "'{}' is no troupe://CLUSTER/ROLE/NAME", uri);
  };
  if (!uri.starts_with(kScheme)) return refused();
  const std::string_view rest = uri.substr(kScheme.size());
  const std::size_t first = rest.find('/');
  if (first == std::string_view::npos) return refused();
  const std::size_t second = rest.find('/', first + 1);
  if (second == std::string_view::npos) return refused();
  const auto role = parse_role(rest.substr(first + 1, second - first - 1));
  if (!role.ok()) return refused();
  Identity identity{std::string(rest.substr(0, first)), *role,
                    std::string(rest.substr(second + 1))};
  if (!check_identity(identity).ok()) return refused();
  return identity;
}

base::Result<Role> parse_role(std::string_view word) {
  const auto role = std::find(kRoles.begin(), kRoles.end(), word);
  if (role != kRoles.end()) return static_cast<Role>(role - kRoles.begin());
  return base::error(Errc::invalid_argument, "'{}' is no role in a cluster", word);
}

Identity process_identity(const Identity& agent, std::string_view job, std::uint64_t generation) {
  return {agent.cluster, Role::process, fmt::format("{}/{}/{}", agent.name, job, generation)};
}

Status check_issuer(const Identity& issuer, const Identity& subject) {
  const bool same = issuer.cluster == subject.cluster;
  const bool by_authority = issuer.role == Role::authority && subject.role != Role::authority &&
                            subject.role != Role::process;
  const bool by_agent = issuer.role == Role::agent && subject.role == Role::process &&
                        subject.name.starts_with(issuer.name + "/");
  if (same && (by_authority || by_agent)) return {};
  return base::error(Errc::permission_denied, "{} may not sign for {}", issuer.to_string(),
                     subject.to_string());
}

}  // namespace troupe::trust
