// SPDX-License-Identifier: Apache-2.0
// Who somebody is in a cluster, as its certificate says: a role and a name. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace troupe::trust {

/// What a certificate lets its holder be.
enum class Role : std::uint8_t {
  authority,    ///< signs all others
  coordinator,  ///< the cluster's
  agent,        ///< of the machine of its name; may sign for processes
  process,      ///< of a job, for the time of the job
  person        ///< who asks a coordinator
};

/// "authority", "coordinator", "agent", "process", "person".
std::string_view role_name(Role role);

/// The holder of a certificate.
struct Identity {
  std::string cluster;
  Role role = Role::process;
  /// Of the machine or, of an authority, the cluster; of a process AGENT/JOB/GENERATION.
  std::string name;

  /// "troupe://CLUSTER/ROLE/NAME", which stands in the certificate.
  std::string uri() const;
  /// "agent 'a' of cluster 'lab'".
  std::string to_string() const;
  friend bool operator==(const Identity&, const Identity&) = default;
};

/// invalid_argument, naming the part, where cluster or name is none.
base::Status check_identity(const Identity& identity);

/// Reads a uri(); invalid_argument names the text.
base::Result<Identity> parse_identity(std::string_view uri);

/// The role of a role_name(); invalid_argument names the word.
base::Result<Role> parse_role(std::string_view word);

/// Of the process that `agent` starts for a run of a job.
Identity process_identity(const Identity& agent, std::string_view job, std::uint64_t generation);

/// Which issuer may sign whom: an authority signs coordinators, agents and persons of its cluster,
/// an agent processes whose name begins with its own; permission_denied says who tried what.
base::Status check_issuer(const Identity& issuer, const Identity& subject);

}  // namespace troupe::trust
