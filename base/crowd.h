// SPDX-License-Identifier: Apache-2.0
// Which peers are one host, as far as an address can say. Pure; any thread.
#pragma once

#include <string>

namespace troupe::base {

/// Whose connections count together when too many wait at a port: the host's, or those of its IPv6
/// network of 64 bits, as one has all addresses of such a network. An IPv4 address written as IPv6
/// is the host's own. What is no number counts by itself.
std::string crowd_of(const std::string& host);

}  // namespace troupe::base
