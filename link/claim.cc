// SPDX-License-Identifier: Apache-2.0
// Claims and certificates.
#include "link/claim.h"

namespace troupe::link {
namespace {

bool fits(const trust::Identity& holder, const LinkEnd& end) {
  const schemas::Role role = end.actor.role;
  switch (holder.role) {
    case trust::Role::authority:
      return false;
    case trust::Role::coordinator:
      return role == schemas::Role::coordinator;
    case trust::Role::agent:
      return role == schemas::Role::agent && end.name == holder.name;
    case trust::Role::person:
      return role == schemas::Role::agent && end.name == kCommandName;
    case trust::Role::process:
      break;
  }
  return role != schemas::Role::coordinator && role != schemas::Role::agent &&
         holder.name == fmt::format("{}/{}/{}", end.name, end.job, end.generation);
}

}  // namespace

base::Status check_claim(const trust::Identity& holder, const LinkEnd& end) {
  if (fits(holder, end)) return {};
  const std::string job =
      end.job.empty() ? "" : fmt::format(" of job '{}' generation {}", end.job, end.generation);
  return base::error(base::Errc::permission_denied, "[link] {} may not be {}{}", holder.to_string(),
                     end.to_string(), job);
}

}  // namespace troupe::link
