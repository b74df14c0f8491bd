// SPDX-License-Identifier: Apache-2.0
// Where Prometheus is sent for a program's pages. Any thread.
#pragma once

#include <string>

#include "base/address.h"

namespace troupe::cluster {

/// The address of pages that listen at `bound`, as others reach it: who listens everywhere is found
/// at `host`.
inline base::Address page_address(const base::Address& bound, const std::string& host) {
  return {bound.wildcard() ? host : bound.host, bound.port};
}

}  // namespace troupe::cluster
