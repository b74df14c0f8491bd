// SPDX-License-Identifier: Apache-2.0
// Which times can stand in a certificate or a token. Pure; any thread.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "trust/certificate.h"

namespace troupe::trust {

/// 9999-12-31T23:59:59Z: what X.509, and dates of four-digit years, can say.
inline constexpr std::int64_t kLatestTime = 253'402'300'799;

/// invalid_argument: it ends after kLatestTime, or before it begins.
base::Status check_validity(const Validity& validity);

}  // namespace troupe::trust
