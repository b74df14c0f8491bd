// SPDX-License-Identifier: Apache-2.0
// Which peers are one host, as far as an address can say, and which of many gives way at a port.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::base {

/// Whose connections count together when too many wait at a port: the host's, or those of its IPv6
/// network of 64 bits, as one has all addresses of such a network. An IPv4 address written as IPv6
/// is the host's own. What is no number counts by itself.
std::string crowd_of(const std::string& host);

/// A connection that has not got yet what it came for.
struct Waiting {
  std::string_view crowd;    ///< crowd_of its host
  std::uint64_t weight = 0;  ///< the more it has said, the later it gives way
};

/// Which of `waiting`, the oldest first, gives way at a port with room for `room`: the lightest,
/// and of those the oldest; where a crowd has more than an eighth of the room, one of the largest.
/// Honest peers say at once what they want, and few come from one host. Empty: nobody waits.
std::optional<std::size_t> who_gives_way(std::span<const Waiting> waiting, std::size_t room);

}  // namespace troupe::base
