// SPDX-License-Identifier: Apache-2.0
// The hosts of `troupe run --hosts`, as people write them: "a:2,ann@b:2,[fd77::2]:4". Pure; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace troupe::cluster {

/// A machine that is reached by ssh.
struct RemoteHost {
  std::string destination;  ///< what ssh is told: "b", "ann@b", "fd77::2"
  std::string host;         ///< the same without the user: a name, or a number without brackets
  std::string name;         ///< of its agent: the host, with '-' for the ':' of a number
  std::uint32_t slots = 1;  ///< for one worker each
  friend bool operator==(const RemoteHost&, const RemoteHost&) = default;
};

/// Each is an ssh of this machine.
inline constexpr std::size_t kRemoteHostsMax = 256;

/// Reads HOST[:SLOTS] with commas between. invalid_argument names the host that is wrong or there
/// twice; resource_exhausted: too many.
base::Result<std::vector<RemoteHost>> parse_host_list(std::string_view text);

/// All their places together.
std::uint64_t slots_of(const std::vector<RemoteHost>& hosts);

}  // namespace troupe::cluster
