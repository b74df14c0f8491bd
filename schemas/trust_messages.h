// SPDX-License-Identifier: Apache-2.0
// The messages by which people show what they may do, and by which all learn who is believed no
// more. Plain values; part of messages.h.
#pragma once

#include <string>

#include "base/status.h"

namespace troupe::schemas {

/// A person's first word where the coordinator wants tokens; not answered.
struct PersonHello {
  std::string token;  ///< empty: none
};

/// The list of what the cluster's authority has withdrawn: the coordinator hands it to agents, they
/// to their processes; who may hands it to the coordinator, which answers without `pem`.
struct DenyList {
  std::string pem = {};
  base::Errc code = base::Errc::ok;
  std::string text = {};
};

}  // namespace troupe::schemas
