// SPDX-License-Identifier: Apache-2.0
// By which of its addresses other hosts reach this machine: asked of the system's routes; nothing
// is sent. Any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace troupe::cluster {

/// This machine's address on the route to `number`, IPv4 or IPv6. Errors: unavailable: there is no
/// route; invalid_argument: it is no number.
base::Result<std::string> own_address_toward(const std::string& number);

/// This machine's number on the way to the first of `hosts` that is another machine; where none is,
/// its loopback. Names are looked up, which blocks. Error unavailable: a host whose name is not
/// known, or to which no route leads.
base::Result<std::string> own_address_toward_hosts(const std::vector<std::string>& hosts);

}  // namespace troupe::cluster
